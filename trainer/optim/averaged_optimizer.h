// Any optimizer with an average of its iterates (normball/average.h) beside the weights.
#pragma once

#include "normball/average.h"
#include "trainer/optim/training_optimizer.h"

namespace normball::trainer::optim {

class AveragedOptimizer final : public TrainingOptimizer {
 public:
  // Means, and the iterate drawn, take the model's buffers (statistics of batch norm) in; with
  // schedule-free a model must have none, since they would be those of other weights.
  AveragedOptimizer(std::unique_ptr<TrainingOptimizer> inner, Average average,
                    const models::Model& model, std::int64_t steps);

  StepOutcome step(double loss, const LossAgain& again) override;
  std::int64_t steps_taken() const override { return inner_->steps_taken(); }
  std::vector<NamedTensor> state() override;
  void set_steps_taken(std::int64_t steps) override;
  normball::optim::NormBall* norm_ball() override { return inner_->norm_ball(); }
  std::string explain() override;
  bool has_average() const override { return averaged_.differs(); }
  void exchange() override { averaged_.exchange(views_); }

 private:
  std::unique_ptr<TrainingOptimizer> inner_;
  std::vector<std::string> names_;
  std::vector<torch::Tensor> tensors_;
  std::vector<MatrixView<float>> views_;
  Averaged<float> averaged_;
  std::int64_t steps_;
  torch::Tensor length_;  // of the run, which the tail depends on: two halves of a whole number
};

}  // namespace normball::trainer::optim
