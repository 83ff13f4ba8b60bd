#include "trainer/optim/norm_ball_optimizer.h"

#include "normball/base/error.h"
#include "trainer/config/config_method.h"
#include "trainer/config/config_use.h"
#include "trainer/optim/routing.h"

namespace normball::trainer::optim {
namespace {

using normball::optim::NormBallOptions;

// The numbers that the method takes, but the lr.
NormBallOptions numbers_of(const config::Config& config) {
  const auto& given = config.optimizer;
  NormBallOptions options;
  const auto takes = [&](const char* key) { return config::has_effect(key, config); };
  if (takes("optimizer.alpha_schedule")) options.alpha(config::alpha_schedule(given).at(0));
  const auto stepsize = config::core_choice(given).stepsize;
  if (stepsize) options.stepsize(*stepsize);
  const auto rho = config::rho_schedule(given);
  if (takes("optimizer.rho_schedule") && rho) options.rho(rho->at(0));
  if (takes("optimizer.beta")) options.beta(given.beta);
  if (takes("optimizer.l0")) options.l0(given.l0);
  if (takes("optimizer.l1")) options.l1(given.l1);
  // "plain" is the default, and to s3cg, which has none, means "norm".
  if (takes("optimizer.short_step") && given.short_step != "plain") {
    options.short_step(given.short_step);
  }
  return options;
}

std::vector<torch::optim::OptimizerParamGroup> groups_of(
    const std::vector<models::ModelParameter>& parameters) {
  std::vector<torch::Tensor> tensors;
  NormBallOptions options;
  for (const auto& parameter : parameters) {
    tensors.push_back(parameter.tensor);
    options.names().push_back(parameter.name);
    options.kinds().push_back(to_string(parameter.kind));
  }
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::move(tensors), std::make_unique<NormBallOptions>(std::move(options)));
  return groups;
}

// How the model's parameters are routed, and how a step is carried out.
NormBallOptions with_routing(NormBallOptions options, const config::Config& config,
                             const std::vector<models::ModelParameter>& parameters) {
  RoutingOptions routing = routing_options(config, parameters);
  options.rules(std::move(routing.rules)).norms(std::move(routing.norms)).radii(routing.radii);
  options.auto_radii(routing.auto_radii);
  if (config::has_effect("optimizer.solver", config)) options.solver(config.optimizer.solver);
  const auto search = config::line_search_of(config);
  if (search) options.line_search(*search);
  return options.threads(config.run.threads).overwrite_gradients(!search);
}

}  // namespace

NormBallOptimizer::NormBallOptimizer(const config::Config& config, std::int64_t steps,
                                     const std::vector<models::ModelParameter>& parameters,
                                     std::shared_ptr<ranks::Ranks> ranks)
    : NormBallOptimizer(config, config::core_choice(config.optimizer).name,
                        numbers_of(config)
                            .ranks(std::move(ranks))
                            .gradients_in_parts(!config::line_search_of(config)),
                        config::core_method(config, steps).lr, parameters) {
  config::require_positive_schedules(config, steps);
  const auto& given = config.optimizer;
  const auto follows = [&](const char* key, const std::string& text) {
    return text != "none" && config::has_effect(key, config);
  };
  if (follows("optimizer.alpha_schedule", given.alpha_schedule)) {
    alpha_ = config::alpha_schedule(given);
  }
  if (follows("optimizer.rho_schedule", given.rho_schedule)) rho_ = config::rho_schedule(given);
}

NormBallOptimizer::NormBallOptimizer(const config::Config& config, std::string_view method,
                                     NormBallOptions options, Schedule lr,
                                     const std::vector<models::ModelParameter>& parameters)
    : lr_(lr),
      optimizer_(groups_of(parameters), method,
                 with_routing(options.lr(lr.value), config, parameters)),
      constrained_(optimizer_.method().constrained),
      searches_(config::line_search_of(config).has_value()),
      memory_(torch::zeros({static_cast<std::int64_t>(optimizer_.rule_memory().size())},
                           torch::kFloat64)) {}

void NormBallOptimizer::follow_schedules() {
  auto& options = static_cast<NormBallOptions&>(optimizer_.defaults());
  if (alpha_) options.alpha(alpha_->at(optimizer_.steps_taken()));
  if (rho_) options.rho(rho_->at(optimizer_.steps_taken()));
}

StepOutcome NormBallOptimizer::step(double loss, const LossAgain& again) {
  StepOutcome outcome{.lr = lr_.at(optimizer_.steps_taken())};
  optimizer_.param_groups()[0].options().set_lr(outcome.lr);
  follow_schedules();
  try {
    searches_ ? optimizer_.step(loss, again) : optimizer_.step(loss);
  } catch (const NonFiniteError& error) {
    if (error.layer().empty() && !searches_) throw;  // no gradient is to blame
    outcome.nonfinite = error.layer().empty() ? std::string(trial_step) : error.layer();
    return outcome;
  }
  const StepReport& report = optimizer_.report();
  outcome.pairing = report.pairing;
  outcome.eta = report.eta;
  outcome.clipped = report.clipped;
  if (constrained_) outcome.gap = report.wolfe_gap;
  if (const auto& search = optimizer_.search_report()) outcome.evaluations = search->evaluations;
  if (alpha_) outcome.alpha = alpha_->at(report.step);
  if (rho_) outcome.rho = report.threshold;
  if (memory_.numel() > 0) {
    outcome.length = report.gamma * report.eta;
    if (report.threshold > 0) outcome.rho = report.threshold;
  }
  return outcome;
}

void NormBallOptimizer::set_steps_taken(std::int64_t steps) {
  const std::span numbers(memory_.data_ptr<double>(), static_cast<size_t>(memory_.numel()));
  optimizer_.set_steps_taken(steps, numbers);
}

std::vector<NamedTensor> NormBallOptimizer::state() {
  std::vector<NamedTensor> tensors;
  optimizer_.consolidate_state();
  for (auto& [name, tensor] : optimizer_.layer_state()) {
    tensors.push_back({std::move(name), std::move(tensor)});
  }
  const auto& numbers = optimizer_.rule_memory();
  std::ranges::copy(numbers, memory_.data_ptr<double>());
  if (!numbers.empty()) tensors.push_back({"stepsize_memory", memory_});
  return tensors;
}

}  // namespace normball::trainer::optim
