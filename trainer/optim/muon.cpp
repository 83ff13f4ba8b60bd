#include "trainer/optim/muon.h"

namespace normball::trainer::optim {
namespace {

// AdamW's learning rate in a run of Muon, relative to Muon's: the 3e-4 to 0.02 of its authors.
constexpr double adamw_share = 0.015;

Schedule scaled(Schedule schedule, double factor) {
  schedule.value *= factor;
  if (auto* cosine = std::get_if<Cosine>(&schedule.decay)) cosine->end *= factor;
  return schedule;
}

}  // namespace

Muon::Muon(const config::Config& config, Schedule lr,
           const std::vector<models::ModelParameter>& parameters,
           std::shared_ptr<ranks::Ranks> ranks)
    : momentum_(config.optimizer.momentum), nesterov_(config.optimizer.nesterov) {
  for (const auto& parameter : parameters) {
    const bool matrix = parameter.role == Role::Hidden && parameter.tensor.dim() >= 2;
    (matrix ? matrices_ : others_).push_back(parameter);
  }
  for (const auto& parameter : matrices_) averages_.push_back(torch::zeros_like(parameter.tensor));
  // The momentum is taken here, since Nesterov's form looks ahead: that optimizer has alpha = 1.
  hidden_ = std::make_unique<NormBallOptimizer>(
      config, "unconstrained_scion", normball::optim::NormBallOptions().ranks(std::move(ranks)), lr,
      matrices_);
  config::OptimizerConfig adamw = config.optimizer;
  adamw.method = "adamw";
  rest_ = std::make_unique<TorchOptimizer>(adamw, scaled(lr, adamw_share), others_);
}

StepOutcome Muon::step(double loss, const LossAgain& again) {
  StepOutcome outcome;
  for (const auto* part : {&matrices_, &others_}) {
    if (const auto* bad = first_nonfinite(*part)) {
      outcome.nonfinite = bad->name;
      return outcome;
    }
  }
  look_ahead();
  outcome = hidden_->step(loss, again);
  rest_->step(loss, again);
  return outcome;
}

// m <- mu m + (1 - mu) g;  g <- mu m + (1 - mu) g, or m itself.
void Muon::look_ahead() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < matrices_.size(); ++i) {
    auto gradient = matrices_[i].tensor.grad();
    if (!gradient.defined()) continue;
    averages_[i].lerp_(gradient, 1 - momentum_);
    if (nesterov_) {
      gradient.lerp_(averages_[i], momentum_);
    } else {
      gradient.copy_(averages_[i]);
    }
  }
}

// The core's own average is the gradient of the last step and never used again.
std::vector<NamedTensor> Muon::state() {
  auto tensors = rest_->state();
  for (size_t i = 0; i < matrices_.size(); ++i) {
    tensors.push_back({"momentum." + matrices_[i].name, averages_[i]});
  }
  return tensors;
}

void Muon::set_steps_taken(std::int64_t steps) {
  hidden_->set_steps_taken(steps);
  rest_->set_steps_taken(steps);
}

std::string Muon::explain() { return hidden_->explain() + rest_->explain(); }

}  // namespace normball::trainer::optim
