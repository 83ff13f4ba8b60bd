#include "normball/method.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball {
namespace {

Method whole_vector(std::string name, StepRule rule, Schedule lr) {
  return {.name = std::move(name),
          .rule = rule,
          .combination = Combination::L2,
          .lr = lr,
          .norm = Euclidean{},
          .radius = 1};
}

template <class T>
T need(std::string_view method, std::string_view option, const std::optional<T>& value) {
  if (!value) throw_invalid("make_method", "'", method, "' needs ", option);
  return *value;
}

// Both at once: who is told of one of them would meet the same error again.
constexpr std::string_view constants = "l0 and l1, of which one may be 0";

constexpr std::array<std::string_view, 3> short_step_names = {"plain", "norm", "diameter"};
constexpr std::span<const std::string_view> all_short_steps = short_step_names;

// What a method by name reads from its options, and that it did.
struct Given {
  std::string_view method;
  const MethodOptions& options;
  MethodUse use = {};

  Schedule lr() {
    use.lr = true;
    const bool own_scale = options.stepsize && needs_distance(*options.stepsize);
    return own_scale ? options.lr.value_or(1) : need(method, "lr", options.lr);
  }
  Schedule alpha() {
    use.alpha = true;
    return options.alpha.value_or(1);
  }
  double rho() {
    use.rho = true;
    return need(method, "rho", options.rho);
  }
  double beta() {
    use.beta = true;
    return need(method, "beta", options.beta);
  }
  double l0() {
    use.l0 = true;
    return need(method, constants, options.l0);
  }
  double l1() {
    use.l1 = true;
    return need(method, constants, options.l1);
  }
  ShortStepForm form() {
    use.short_steps = all_short_steps;
    return options.short_step.value_or(ShortStepForm::Plain);
  }
  ShortStep::Variant variant() {
    use.short_steps = all_short_steps.subspan(1);
    return options.short_step == ShortStepForm::ByDiameter ? ShortStep::Variant::ByDiameter
                                                           : ShortStep::Variant::ByNorm;
  }
  // It has no other, so "plain" may be said of it as of its constrained form.
  Given& plain() {
    use.short_steps = all_short_steps.first(1);
    return *this;
  }
};

struct Entry {
  std::string_view name;
  Method (*make)(Given&);
};

constexpr std::array<Entry, 17> registry = {{
    {"gd", [](Given& g) { return gd(g.lr()); }},
    {"normalized_gd", [](Given& g) { return normalized_gd(g.lr()); }},
    {"clipped_gd", [](Given& g) { return clipped_gd(g.lr(), g.rho()); }},
    {"sd", [](Given& g) { return sd(g.lr()); }},
    {"adaptive_sd", [](Given& g) { return adaptive_sd(g.l0(), g.l1()); }},
    {"ucg", [](Given& g) { return ucg(g.lr()); }},
    {"ggnc", [](Given& g) { return ggnc(g.lr(), g.rho(), g.alpha()); }},
    {"cg", [](Given&) { return cg(); }},
    {"s3cg", [](Given& g) { return s3cg(g.lr(), g.rho(), g.beta(), g.variant(), g.alpha()); }},
    {"clipped_sign", [](Given& g) { return clipped_sign(g.lr(), g.rho(), g.alpha()); }},
    {"clipped_spectral", [](Given& g) { return clipped_spectral(g.lr(), g.rho(), g.alpha()); }},
    {"lars", [](Given& g) { return lars(g.lr(), g.alpha()); }},
    {"clipped_lars", [](Given& g) { return clipped_lars(g.lr(), g.rho(), g.alpha()); }},
    {"scion", [](Given& g) { return scion(g.lr(), g.alpha()); }},
    {"unconstrained_scion", [](Given& g) { return unconstrained_scion(g.lr(), g.alpha()); }},
    {"clipped_scion", [](Given& g) { return clipped_scion(g.lr(), g.alpha(), g.rho(), g.form()); }},
    {"unconstrained_clipped_scion",
     [](Given& g) { return unconstrained_clipped_scion(g.lr(), g.alpha(), g.plain().rho()); }},
}};

constexpr auto registry_names = [] {
  std::array<std::string_view, registry.size()> names;
  std::ranges::transform(registry, names.begin(), &Entry::name);
  return names;
}();

const Entry& find_entry(std::string_view name) {
  const auto found = std::ranges::find(registry, name, &Entry::name);
  if (found == registry.end()) {
    throw_invalid("make_method", unknown_name("method", name, registry_names));
  }
  return *found;
}

void require_short_step(std::string_view where, std::string_view method, ShortStepForm form,
                        std::span<const std::string_view> allowed) {
  const std::string_view name = short_step_names[static_cast<size_t>(form)];
  if (std::ranges::find(allowed, name) != allowed.end()) return;
  if (allowed.empty()) {
    throw_invalid(where, "the method '", method, "' does not take short_step, got '", name,
                  "'; only 'clipped_scion' and 's3cg' do");
  }
  if (method == "s3cg") {
    throw_invalid(where, "the short_step of 's3cg' is 'norm' or 'diameter', got '", name, "'");
  }
  throw_invalid(where, "short_step '", name, "' is for constrained methods, 'clipped_scion' and ",
                "'s3cg'; '", method, "' clips s itself: leave short_step out");
}

// Enough for every method, to see what it reads.
const MethodOptions& any_options() {
  static const MethodOptions options{.lr = 1, .rho = 1, .beta = 1, .l0 = 1, .l1 = 1};
  return options;
}

// The rule is the stepsize, where one is given.
Method make_by_name(std::string_view where, Given& given) {
  Method method = find_entry(given.method).make(given);
  if (!given.options.stepsize) return method;
  require_stepsize(where, *given.options.stepsize);
  if (!takes_stepsize(given.method)) {
    std::string known;
    for (const auto& entry : registry) {
      if (takes_stepsize(entry.name))
        known += (known.empty() ? "'" : ", '") + std::string(entry.name) + "'";
    }
    throw_invalid(where, "the method '", given.method,
                  "' has a rule of its own for the stepsize, '", method.rule,
                  "'; those that take the stepsize '", *given.options.stepsize, "' are ", known);
  }
  method.rule = *given.options.stepsize;
  return method;
}

}  // namespace

MethodUse method_use(std::string_view name) {
  Given given{name, any_options()};
  const Method method = find_entry(name).make(given);
  given.use.layer_norms = !method.norm;
  given.use.layer_radii = !method.radius;
  given.use.own_spectral_norm = method.norm && std::holds_alternative<Spectral>(*method.norm);
  return given.use;
}

bool takes_stepsize(std::string_view name) {
  Given given{name, any_options()};
  return std::holds_alternative<Normalized>(find_entry(name).make(given).rule);
}

bool needs_lr(std::string_view name, const MethodOptions& options) {
  if (options.stepsize && needs_distance(*options.stepsize)) return false;
  return method_use(name).lr;
}

void validate(const Method& method) {
  validate(method.rule);
  validate(method.lr);
  validate(method.alpha);
  require_lr("Method", method, method.lr.value < 0 ? method.lr.value : method.lr.max());
  if (!(method.alpha.value > 0 && method.alpha.max() <= 1)) {
    throw_invalid("Method", "alpha must be in (0, 1], got ", method.alpha);
  }
  if (method.radius) require_positive("Method", "radius", *method.radius);
}

void require_lr(std::string_view where, const Method& method, double lr, std::string_view layer) {
  const auto of = [&] { return layer.empty() ? "" : " of '" + std::string(layer) + "'"; };
  if (!(lr >= 0)) throw_invalid(where, "lr", of(), " must not be negative, got ", lr);
  const double gamma = lr / rho(method.rule);
  if (!std::isfinite(gamma)) {
    throw_invalid(where, "gamma = lr / rho is not finite for an lr", of(), " of ", lr,
                  " with the rule ", method.rule);
  }
  constexpr double rounding = 1e-12;
  const double longest = gamma * max_eta(method.rule);
  if (method.constrained && longest > 1 + rounding) {
    throw_invalid(where, "a constrained method needs gamma eta <= 1 to stay in the ball; lr", of(),
                  " ", lr, " with the rule ", method.rule, " can reach ", longest);
  }
}

Method gd(Schedule lr) { return whole_vector("gd", Steepest{}, lr); }

Method normalized_gd(Schedule lr) { return whole_vector("normalized_gd", Normalized{}, lr); }

Method clipped_gd(Schedule lr, double rho) { return whole_vector("clipped_gd", Clipped{rho}, lr); }

Method sd(Schedule lr) { return {.name = "sd", .rule = Steepest{}, .lr = lr}; }

Method adaptive_sd(double l0, double l1) {
  return {.name = "adaptive_sd", .rule = Adaptive{l0, l1}, .lr = 1};
}

Method ucg(Schedule lr) { return {.name = "ucg", .rule = Normalized{}, .lr = lr}; }

Method ggnc(Schedule lr, double rho, Schedule alpha) {
  return {.name = "ggnc", .rule = Clipped{rho}, .lr = lr, .alpha = alpha};
}

Method cg() { return {.name = "cg", .rule = OpenLoop{}, .constrained = true, .lr = 1}; }

Method s3cg(Schedule lr, double rho, double beta, ShortStep::Variant variant, Schedule alpha) {
  return {.name = "s3cg",
          .rule = ShortStep{.rho = rho, .variant = variant, .beta = beta},
          .constrained = true,
          .lr = lr,
          .alpha = alpha,
          .radius = beta};
}

Method clipped_sign(Schedule lr, double rho, Schedule alpha) {
  auto method = ggnc(lr, rho, alpha);
  method.name = "clipped_sign";
  method.norm = Sign{.unit = true};
  method.radius = 1;
  return method;
}

Method clipped_spectral(Schedule lr, double rho, Schedule alpha) {
  auto method = ggnc(lr, rho, alpha);
  method.name = "clipped_spectral";
  method.norm = Spectral{.scale = SpectralScale::Unit};
  method.radius = 1;
  return method;
}

Method lars(Schedule lr, Schedule alpha) {
  return {.name = "lars",
          .rule = Normalized{},
          .lr = lr,
          .alpha = alpha,
          .norm = Euclidean{},
          .radius = 1};
}

Method clipped_lars(Schedule lr, double rho, Schedule alpha) {
  auto method = lars(lr, alpha);
  method.name = "clipped_lars";
  method.rule = Clipped{rho};
  return method;
}

Method scion(Schedule lr, Schedule alpha) {
  return {.name = "scion", .rule = Normalized{}, .constrained = true, .lr = lr, .alpha = alpha};
}

Method unconstrained_scion(Schedule lr, Schedule alpha) {
  return {.name = "unconstrained_scion", .rule = Normalized{}, .lr = lr, .alpha = alpha};
}

Method clipped_scion(Schedule lr, Schedule alpha, double rho, ShortStepForm form) {
  auto method = scion(lr, alpha);
  method.name = "clipped_scion";
  switch (form) {
    case ShortStepForm::Plain:
      method.rule = Clipped{rho};
      break;
    case ShortStepForm::ByNorm:
      method.rule = ShortStep{.rho = rho, .variant = ShortStep::Variant::ByNorm};
      break;
    case ShortStepForm::ByDiameter:
      method.rule = ShortStep{.rho = rho, .variant = ShortStep::Variant::ByDiameter};
      break;
  }
  return method;
}

Method unconstrained_clipped_scion(Schedule lr, Schedule alpha, double rho) {
  auto method = ggnc(lr, rho, alpha);
  method.name = "unconstrained_clipped_scion";
  return method;
}

Method make_method(std::string_view name, const MethodOptions& options) {
  Given given{name, options};
  Method method = make_by_name("make_method", given);
  validate(method);
  return method;
}

void require_all_used(std::string_view where, std::string_view name, const MethodOptions& options) {
  Given given{name, options};
  make_by_name(where, given);
  const MethodUse& use = given.use;
  const auto check = [&](std::string_view option, bool is_read, const auto& value) {
    if (!value || is_read) return;
    throw_invalid(where, "the method '", name, "' has no ", option, ", got ", *value);
  };
  if (options.alpha != Schedule(1)) check("alpha", use.alpha, options.alpha);
  check("rho", use.rho, options.rho);
  check("beta", use.beta, options.beta);
  check("l0", use.l0, options.l0);
  check("l1", use.l1, options.l1);
  if (options.short_step) require_short_step(where, name, *options.short_step, use.short_steps);
}

void use_solver(std::string_view where, const PolarSolver& solver, Method& method) {
  if (!method.norm) return;
  if (auto* spectral = std::get_if<Spectral>(&*method.norm)) {
    spectral->solver = solver;
  } else if (!std::holds_alternative<ExactPolar>(solver)) {
    throw_invalid(where, "the method '", method.name, "' has the norm '", *method.norm,
                  "', which needs no solver, got '", solver, "'");
  }
}

bool sees_matrices(const Method& method) {
  if (!method.norm || !method.radius) return true;
  const bool whole_vector =
      std::holds_alternative<Euclidean>(*method.norm) && method.combination == Combination::L2;
  const auto* const sign = std::get_if<Sign>(&*method.norm);
  const bool whole_maximum =
      sign != nullptr && sign->unit && method.combination == Combination::Max;
  return !whole_vector && !whole_maximum;
}

std::span<const std::string_view> method_names() { return registry_names; }

ShortStepForm parse_short_step(std::string_view text) {
  const auto found = std::ranges::find(short_step_names, text);
  if (found == short_step_names.end()) {
    throw_invalid("parse_short_step", unknown_name("short step", text, short_step_names));
  }
  return static_cast<ShortStepForm>(found - short_step_names.begin());
}

}  // namespace normball
