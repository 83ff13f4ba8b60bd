// Every method of the library on a model's tensors: the optimizer that LibTorch programs get, with
// the configuration's routing and schedule.
#pragma once

#include "normball_torch/norm_ball.h"
#include "trainer/optim/training_optimizer.h"

namespace normball::trainer::optim {

class NormBallOptimizer final : public TrainingOptimizer {
 public:
  // The method that the configuration names.
  NormBallOptimizer(const config::Config& config, std::int64_t steps,
                    const std::vector<models::ModelParameter>& parameters,
                    std::shared_ptr<ranks::Ranks> ranks = nullptr);
  // Another, with the configuration's norms and radii. The options have its numbers but the lr.
  NormBallOptimizer(const config::Config& config, std::string_view method,
                    normball::optim::NormBallOptions options, Schedule lr,
                    const std::vector<models::ModelParameter>& parameters);

  StepOutcome step(double loss, const LossAgain& again) override;
  std::int64_t steps_taken() const override { return optimizer_.steps_taken(); }
  std::vector<NamedTensor> state() override;
  void set_steps_taken(std::int64_t steps) override;
  std::vector<std::int64_t> gradient_parts(const torch::Tensor& parameter) override {
    return optimizer_.gradient_parts(parameter);
  }
  normball::optim::NormBall* norm_ball() override { return &optimizer_; }
  std::string explain() override { return optimizer_.explain(); }

 private:
  void follow_schedules();

  Schedule lr_;
  std::optional<Schedule> alpha_ = {}, rho_ = {};  // where they are more than a number
  normball::optim::NormBall optimizer_;
  bool constrained_, searches_;
  torch::Tensor memory_;  // of the stepsize, for checkpoints; empty where it has none
};

}  // namespace normball::trainer::optim
