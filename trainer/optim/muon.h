// Muon as its authors run it: orthogonalized (Nesterov) momentum on hidden matrices, AdamW on the
// rest. Composed of the other two optimizers.
#pragma once

#include "trainer/optim/norm_ball_optimizer.h"
#include "trainer/optim/torch_optimizer.h"

namespace normball::trainer::optim {

class Muon final : public TrainingOptimizer {
 public:
  Muon(const config::Config& config, Schedule lr,
       const std::vector<models::ModelParameter>& parameters,
       std::shared_ptr<ranks::Ranks> ranks = nullptr);

  StepOutcome step(double loss, const LossAgain& again) override;
  std::int64_t steps_taken() const override { return hidden_->steps_taken(); }
  std::vector<NamedTensor> state() override;
  void set_steps_taken(std::int64_t steps) override;
  std::string explain() override;

 private:
  void look_ahead();

  double momentum_;
  bool nesterov_;
  std::vector<models::ModelParameter> matrices_, others_;
  std::vector<torch::Tensor> averages_;
  std::unique_ptr<NormBallOptimizer> hidden_;
  std::unique_ptr<TorchOptimizer> rest_;
};

}  // namespace normball::trainer::optim
