// LibTorch's own optimizers, for comparison.
#pragma once

#include <functional>

#include "normball/schedule.h"
#include "trainer/optim/training_optimizer.h"

namespace normball::trainer::optim {

class TorchOptimizer final : public TrainingOptimizer {
 public:
  // config.method: adam, adamw or sgd.
  TorchOptimizer(const config::OptimizerConfig& config, Schedule lr,
                 std::vector<models::ModelParameter> parameters);

  StepOutcome step(double loss, const LossAgain& again) override;
  std::int64_t steps_taken() const override { return steps_; }
  std::vector<NamedTensor> state() override { return state_; }
  void set_steps_taken(std::int64_t steps) override;
  std::string explain() override;

 private:
  template <class Kind, class State, class Options>
  void use_adam(const config::OptimizerConfig& config);
  void use_sgd(const config::OptimizerConfig& config);

  std::string method_;
  double grad_clip_;
  Schedule lr_;
  std::vector<models::ModelParameter> parameters_;
  std::vector<torch::Tensor> tensors_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<NamedTensor> state_;
  std::vector<std::function<void(std::int64_t)>> counters_;  // Adam counts steps for each parameter
  std::int64_t steps_ = 0;
};

// The first parameter whose gradient has an entry that is not finite, or null.
const models::ModelParameter* first_nonfinite(
    const std::vector<models::ModelParameter>& parameters);

}  // namespace normball::trainer::optim
