#include "trainer/config/config_method.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "normball/base/error.h"
#include "trainer/config/config_use.h"

namespace normball::trainer::config {
namespace {

void use_solver(Norm& norm, std::string_view solver) {
  if (auto* spectral = std::get_if<Spectral>(&norm)) spectral->solver = parse_polar_solver(solver);
}

// Methods that clip, and what they are without.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> unclipped = {{
    {"clipped_gd", "normalized_gd"},
    {"clipped_lars", "lars"},
    {"clipped_scion", "scion"},
    {"unconstrained_clipped_scion", "unconstrained_scion"},
}};

bool reads_rho(const OptimizerConfig& options) {
  MethodOptions all{.lr = 1, .rho = 1, .beta = 1, .l0 = 1, .l1 = 1};
  MethodOptions other = all;
  other.rho = 2;
  return rho(make_method(options.method, all).rule) != rho(make_method(options.method, other).rule);
}

}  // namespace

bool finds_scale(const OptimizerConfig& options) {
  return options.stepsize != "none" && is_core_method(options.method) &&
         takes_stepsize(options.method) && needs_distance(parse_stepsize(options.stepsize));
}

bool finds_rho(const OptimizerConfig& options) {
  return options.rho_schedule == "none" && options.rho && options.rho->automatic;
}

Schedule alpha_schedule(const OptimizerConfig& options) {
  if (options.alpha_schedule == "none") return options.alpha;
  return parse_schedule(options.alpha_schedule);
}

std::optional<Schedule> rho_schedule(const OptimizerConfig& options) {
  if (options.rho_schedule != "none") return parse_schedule(options.rho_schedule);
  if (!options.rho || options.rho->automatic) return std::nullopt;
  return options.rho->number;
}

// They rise and then fall, so that their least is at one of the ends.
void require_positive_schedules(const Config& config, std::int64_t steps) {
  const auto require = [&](const char* key, const std::string& text) {
    if (text == "none") return;
    const Schedule schedule = parse_schedule(text);
    const std::int64_t last = std::max<std::int64_t>(steps - 1, 0);
    if (schedule.at(0) > 0 && schedule.at(last) > 0) return;
    throw_invalid("train", key, " = ", text, " must be above 0 in all ", steps,
                  " steps of the run, and is ", schedule.at(last), " in the last");
  };
  require("optimizer.alpha_schedule", config.optimizer.alpha_schedule);
  require("optimizer.rho_schedule", config.optimizer.rho_schedule);
}

double first_lr(const OptimizerConfig& options) { return finds_scale(options) ? 1 : options.lr; }

CoreMethod core_choice(const OptimizerConfig& options) {
  if (finds_rho(options) && reads_rho(options)) {
    const auto found = std::ranges::find(unclipped, options.method,
                                         &std::pair<std::string_view, std::string_view>::first);
    if (found == unclipped.end()) {
      throw_invalid("make_method", "rho = \"auto\" is for the methods clipped_gd, clipped_lars, ",
                    "clipped_scion and unconstrained_clipped_scion; '", options.method,
                    "' needs a number");
    }
    return {std::string(found->second), "auto_clipped"};
  }
  if (options.stepsize == "none" || !takes_stepsize(options.method)) return {options.method};
  return {options.method, options.stepsize};
}

std::optional<std::string> line_search_of(const Config& config) {
  const std::string& text = config.optimizer.line_search;
  if (text == "none" || !has_effect("optimizer.line_search", config)) return std::nullopt;
  return text;
}

Schedule lr_schedule(const Config& config, std::int64_t steps) {
  const auto& schedule = config.schedule;
  const auto share = [&](double part) { return std::llround(part * static_cast<double>(steps)); };
  Decay decay = Constant{};
  if (schedule.kind == "linear") decay = LinearDecay{steps};
  if (schedule.kind == "cosine") decay = Cosine{steps, schedule.end};
  if (schedule.kind == "warmdown") {
    decay = Warmdown{steps, std::max<std::int64_t>(share(schedule.decay), 1)};
  }
  if (schedule.kind == "power") decay = Power{schedule.exponent};
  Schedule lr(first_lr(config.optimizer), decay, share(schedule.warmup));
  validate(lr);
  return lr;
}

bool is_core_method(std::string_view name) {
  return std::ranges::find(method_names(), name) != method_names().end();
}

Method core_method(const Config& config, std::int64_t steps) {
  const auto& options = config.optimizer;
  const CoreMethod chosen = core_choice(options);
  MethodOptions given{.lr = lr_schedule(config, steps),
                      .alpha = alpha_schedule(options),
                      .beta = options.beta,
                      .l0 = options.l0,
                      .l1 = options.l1,
                      .short_step = parse_short_step(options.short_step)};
  if (const auto rho = rho_schedule(options)) given.rho = rho->at(0);
  if (chosen.stepsize) given.stepsize = parse_stepsize(*chosen.stepsize);
  Method method = make_method(chosen.name, given);
  if (method.norm) use_solver(*method.norm, options.solver);
  return method;
}

RoutingOptions routing_options(const Config& config) {
  RoutingOptions options{.solver = parse_polar_solver(config.optimizer.solver)};
  if (is_core_method(config.optimizer.method)) {
    const Method method = core_method(config, 1000);  // its norm and radius are of any length
    options.method = method.name;
    options.method_norm = method.norm;
    options.method_radius = method.radius;
    options.method_sees_matrices = sees_matrices(method);
  }
  const auto parsed = [&](const std::string& text) { return parse_norm(text, options.solver); };
  const NormConfig& norm = config.norm;
  const bool tied = config.model.kind == "gpt";  // whose output layer is its embedding
  if (!options.method_norm) {
    options.norms = {.input = parsed(norm.input),
                     .onehot = parsed(norm.embedding),
                     .hidden = parsed(norm.hidden),
                     .output = parsed(tied ? norm.embedding : norm.output),
                     .bias = parsed(norm.vector)};
  }
  options.auto_radii = norm.radii == "auto" && has_effect("norm.radii", config);
  if (!options.method_radius && !options.auto_radii) {
    options.radii = {.input = norm.input_radius,
                     .onehot = norm.embedding_radius,
                     .hidden = norm.hidden_radius,
                     .output = tied ? norm.embedding_radius : norm.output_radius,
                     .bias = norm.vector_radius};
  }
  for (const auto& route : norm.route) {
    RoutingRule& rule = options.rules.emplace_back(RoutingRule{route.pattern, {}});
    if (route.norm && !options.method_norm) rule.then.norm = parsed(*route.norm);
    if (!options.method_radius) rule.then.radius = route.radius;
  }
  return options;
}

}  // namespace normball::trainer::config
