#include "trainer/optim/torch_optimizer.h"

#include <algorithm>
#include <sstream>

#include "normball/internal/kernels/kernels.h"
#include "normball_torch/state_key.h"

namespace normball::trainer::optim {
namespace {

// The state of one parameter, made at once instead of at the first step, so that a checkpoint has
// the same tensors at any time.
template <class State>
State& new_state(torch::optim::Optimizer& optimizer, const torch::Tensor& tensor) {
  auto state = std::make_unique<State>();
  State& result = *state;
  optimizer.state()[normball::optim::state_key(tensor)] = std::move(state);
  return result;
}

}  // namespace

TorchOptimizer::TorchOptimizer(const config::OptimizerConfig& config, Schedule lr,
                               std::vector<models::ModelParameter> parameters)
    : method_(config.method),
      grad_clip_(config.grad_clip),
      lr_(lr),
      parameters_(std::move(parameters)) {
  for (const auto& parameter : parameters_) tensors_.push_back(parameter.tensor);
  if (method_ == "sgd") {
    use_sgd(config);
  } else if (method_ == "adam") {
    use_adam<torch::optim::Adam, torch::optim::AdamParamState, torch::optim::AdamOptions>(config);
  } else {
    use_adam<torch::optim::AdamW, torch::optim::AdamWParamState, torch::optim::AdamWOptions>(
        config);
  }
}

template <class Kind, class State, class Options>
void TorchOptimizer::use_adam(const config::OptimizerConfig& config) {
  optimizer_ = std::make_unique<Kind>(tensors_, Options(config.lr)
                                                    .betas({config.betas[0], config.betas[1]})
                                                    .eps(config.eps)
                                                    .weight_decay(config.weight_decay));
  for (const auto& parameter : parameters_) {
    auto& state = new_state<State>(*optimizer_, parameter.tensor);
    state.exp_avg(torch::zeros_like(parameter.tensor));
    state.exp_avg_sq(torch::zeros_like(parameter.tensor));
    state_.push_back({"exp_avg." + parameter.name, state.exp_avg()});
    state_.push_back({"exp_avg_sq." + parameter.name, state.exp_avg_sq()});
    counters_.push_back([&state](std::int64_t steps) { state.step(steps); });
  }
}

void TorchOptimizer::use_sgd(const config::OptimizerConfig& config) {
  optimizer_ = std::make_unique<torch::optim::SGD>(
      tensors_, torch::optim::SGDOptions(config.lr)
                    .momentum(config.momentum)
                    .nesterov(config.nesterov && config.momentum > 0)
                    .weight_decay(config.weight_decay));
  if (config.momentum == 0) return;
  for (const auto& parameter : parameters_) {
    auto& state = new_state<torch::optim::SGDParamState>(*optimizer_, parameter.tensor);
    state.momentum_buffer(torch::zeros_like(parameter.tensor));
    state_.push_back({"momentum." + parameter.name, state.momentum_buffer()});
  }
}

StepOutcome TorchOptimizer::step(double /*loss*/, const LossAgain& /*again*/) {
  StepOutcome outcome{.lr = lr_.at(steps_)};
  if (const auto* bad = first_nonfinite(parameters_)) {
    outcome.nonfinite = bad->name;
    return outcome;
  }
  if (grad_clip_ > 0) {
    const double norm = torch::nn::utils::clip_grad_norm_(tensors_, grad_clip_);
    outcome.pairing = norm;
    outcome.clipped = norm > grad_clip_;
  }
  for (auto& group : optimizer_->param_groups()) group.options().set_lr(outcome.lr);
  optimizer_->step();
  ++steps_;
  return outcome;
}

void TorchOptimizer::set_steps_taken(std::int64_t steps) {
  steps_ = steps;
  for (const auto& set_counter : counters_) set_counter(steps);
}

std::string TorchOptimizer::explain() {
  std::ostringstream text;
  for (const auto& parameter : parameters_)
    text << "  " << parameter.name << "  " << method_ << '\n';
  return text.str();
}

const models::ModelParameter* first_nonfinite(
    const std::vector<models::ModelParameter>& parameters) {
  const auto finite = [](const models::ModelParameter& parameter) {
    const auto& gradient = parameter.tensor.grad();
    if (!gradient.defined()) return true;
    return all_finite(MatrixView<const float>(gradient.data_ptr<float>(), 1, gradient.numel()));
  };
  const auto bad = std::ranges::find_if_not(parameters, finite);
  return bad == parameters.end() ? nullptr : &*bad;
}

}  // namespace normball::trainer::optim
