#include "trainer/config/config_method.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace normball::trainer::config {
namespace {

std::pair<const std::string&, double> of_role(const NormConfig& norm, ParameterRole role) {
  switch (role) {
    case ParameterRole::Input:
      return {norm.input, norm.input_radius};
    case ParameterRole::Embedding:
      return {norm.embedding, norm.embedding_radius};
    case ParameterRole::Hidden:
      return {norm.hidden, norm.hidden_radius};
    case ParameterRole::Output:
      return {norm.output, norm.output_radius};
    case ParameterRole::Vector:
      return {norm.vector, norm.vector_radius};
  }
  __builtin_unreachable();
}

void use_solver(Norm& norm, std::string_view solver) {
  if (auto* spectral = std::get_if<Spectral>(&norm)) spectral->solver = parse_polar_solver(solver);
}

}  // namespace

Schedule lr_schedule(const Config& config, std::int64_t steps) {
  const auto& schedule = config.schedule;
  const auto share = [&](double part) { return std::llround(part * static_cast<double>(steps)); };
  Decay decay = Constant{};
  if (schedule.kind == "linear") decay = LinearDecay{steps};
  if (schedule.kind == "cosine") decay = Cosine{steps, schedule.end};
  if (schedule.kind == "warmdown") {
    decay = Warmdown{steps, std::max<std::int64_t>(share(schedule.decay), 1)};
  }
  Schedule lr(config.optimizer.lr, decay, share(schedule.warmup));
  validate(lr);
  return lr;
}

bool is_core_method(std::string_view name) {
  return std::ranges::find(method_names(), name) != method_names().end();
}

Method core_method(const Config& config, std::int64_t steps) {
  const auto& options = config.optimizer;
  Method method = make_method(options.method, {.lr = lr_schedule(config, steps),
                                               .alpha = Schedule(options.alpha),
                                               .rho = options.rho,
                                               .beta = options.beta,
                                               .l0 = options.l0,
                                               .l1 = options.l1,
                                               .short_step = parse_short_step(options.short_step)});
  if (method.norm) use_solver(*method.norm, options.solver);
  return method;
}

NormChoice norm_of(const Config& config, ParameterRole role, std::string_view parameter) {
  auto [text, radius] = of_role(config.norm, role);
  std::string norm = text;
  const std::string name(parameter);
  for (const auto& route : config.norm.route) {
    if (::fnmatch(route.pattern.c_str(), name.c_str(), 0) != 0) continue;
    norm = route.norm.value_or(norm);
    radius = route.radius.value_or(radius);
    break;
  }
  NormChoice choice{parse_norm(norm), radius};
  if (norm.find("solver=") == std::string::npos) use_solver(choice.norm, config.optimizer.solver);
  return choice;
}

}  // namespace normball::trainer::config
