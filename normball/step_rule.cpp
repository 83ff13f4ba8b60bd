#include "normball/step_rule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ostream>
#include <vector>

#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball {

double Normalized::eta(const StepInput&) const { return rho; }
double Normalized::max_eta() const { return rho; }
void Normalized::validate() const { require_positive("Normalized", "rho", rho); }
Normalized Normalized::parse(TextCall& call) { return {call.take_number("rho", 1)}; }
std::string Normalized::text() const {
  return call_text(name, {rho == 1 ? "" : "rho=" + number_text(rho)});
}

double Steepest::eta(const StepInput& input) const { return input.pairing; }
double Steepest::max_eta() const { return std::numeric_limits<double>::infinity(); }
void Steepest::validate() const {}
Steepest Steepest::parse(TextCall&) { return {}; }
std::string Steepest::text() const { return std::string(name); }

double Clipped::eta(const StepInput& input) const { return std::min(rho, input.pairing); }
double Clipped::max_eta() const { return rho; }
void Clipped::validate() const { require_positive("Clipped", "rho", rho); }
Clipped Clipped::parse(TextCall& call) { return {call.take_number("rho")}; }
std::string Clipped::text() const { return call_text(name, {"rho=" + number_text(rho)}); }

double ShortStep::eta(const StepInput& input) const {
  const double length = variant == Variant::ByNorm ? input.direction_norm : 2;
  return length == 0 ? 0 : std::min(rho, input.pairing / (beta * length * (beta * length)));
}
double ShortStep::max_eta() const { return rho; }
void ShortStep::validate() const {
  require_positive("ShortStep", "rho", rho);
  require_positive("ShortStep", "beta", beta);
}
ShortStep ShortStep::parse(TextCall& call) {
  ShortStep rule{.rho = call.take_number("rho"), .beta = call.take_number("beta", 1)};
  call.take_flag("norm");
  if (call.take_flag("diameter")) rule.variant = Variant::ByDiameter;
  return rule;
}
std::string ShortStep::text() const {
  return call_text(name,
                   {"rho=" + number_text(rho), variant == Variant::ByNorm ? "norm" : "diameter",
                    beta == 1 ? "" : "beta=" + number_text(beta)});
}

double OpenLoop::eta(const StepInput& input) const {
  return 2 / (static_cast<double>(input.step) + 2);
}
double OpenLoop::max_eta() const { return 1; }
void OpenLoop::validate() const {}
OpenLoop OpenLoop::parse(TextCall&) { return {}; }
std::string OpenLoop::text() const { return std::string(name); }

double Adaptive::eta(const StepInput& input) const {
  if (input.pairing <= 0) return 0;  // else positive again below -l0/l1, and 0/0 where l0 = 0
  return input.pairing / (l0 + l1 * input.pairing);
}
double Adaptive::max_eta() const { return 1 / l1; }
void Adaptive::validate() const {
  const bool allowed = std::isfinite(l0) && std::isfinite(l1) && l0 >= 0 && l1 >= 0;
  if (!allowed || l0 + l1 == 0) {
    throw_invalid("Adaptive", "l0 and l1 must be finite, not negative and not both 0, got ", l0,
                  " and ", l1);
  }
}
Adaptive Adaptive::parse(TextCall& call) {
  const double first = call.take_number("l0");
  return {first, call.take_number("l1")};
}
std::string Adaptive::text() const {
  return call_text(name, {"l0=" + number_text(l0), "l1=" + number_text(l1)});
}

namespace {

template <class Rule>
constexpr bool clips = requires {
  Rule::clips;
};

template <class Rule>
constexpr std::size_t memory_of = 0;
template <class Rule>
requires requires { Rule::memory_size; }
constexpr std::size_t memory_of<Rule> = Rule::memory_size;

void require_possible(std::string_view where, const StepRule& rule,
                      std::span<const double> memory) {
  for (const double number : memory) {
    if (!std::isfinite(number)) throw_invalid(where, "the rule's memory has the entry ", number);
  }
  const bool possible = std::visit(
      [&]<class Rule>(const Rule& own) {
        if constexpr (memory_of < Rule >> 0) return own.may_remember(memory);
        return true;
      },
      rule);
  if (!possible) {
    throw_invalid(
        where, "the rule '", rule,
        "' cannot have left these numbers in its memory: pass the numbers saved with the state, "
        "or zeros to start the rule afresh");
  }
}

// Zero memories are as good as any to look at; a wrong number of them is a driver's mistake.
void require_memory(const StepRule& rule, std::span<const double> memory) {
  if (memory.size() != memory_size(rule)) {
    throw_invalid("eta", "the rule '", rule, "' remembers ", memory_size(rule),
                  " numbers from step to step, got ", memory.size(),
                  ": use Optimizer::step(), or give StepInput::memory");
  }
  require_possible("eta", rule, memory);
}

template <class... Rules>
constexpr std::array<std::string_view, sizeof...(Rules)> names_of(const std::variant<Rules...>*) {
  return {Rules::name...};
}
constexpr auto rule_names = names_of(static_cast<const StepRule*>(nullptr));

template <class... Rules>
std::vector<std::string_view> names_with_memory(const std::variant<Rules...>*) {
  std::vector<std::string_view> names;
  (..., (memory_of<Rules> > 0 ? names.push_back(Rules::name) : void()));
  return names;
}
std::vector<std::string_view> stepsize_names() {
  return names_with_memory(static_cast<const StepRule*>(nullptr));
}

[[noreturn]] void refuse_stepsize(std::string_view where, std::string_view rule) {
  throw_invalid(where, "the rule '", rule, "' is one of methods, no stepsize: choose the method ",
                "that has it, and leave stepsize out; stepsizes are ", list_of(stepsize_names()));
}

// The first of the rules whose name it is.
template <class... Rules>
bool parse_any(TextCall& call, std::variant<Rules...>& rule) {
  const auto parse = [&]<class Rule>(const Rule*) {
    if (call.name != Rule::name) return false;
    rule = Rule::parse(call);
    return true;
  };
  return (parse(static_cast<const Rules*>(nullptr)) || ...);
}

}  // namespace

double eta(const StepRule& rule, const StepInput& input) {
  if (std::isnan(input.pairing) || std::isnan(input.direction_norm) ||
      (needs_loss(rule) && std::isnan(input.loss))) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (memory_size(rule) > 0) require_memory(rule, input.memory);
  return std::max(0.0, std::visit([&](const auto& own) { return own.eta(input); }, rule));
}

void remember(const StepRule& rule, StepInput input, double eta, std::span<double> memory) {
  require_memory(rule, memory);
  input.memory = memory;
  std::visit(
      [&]<class Rule>(const Rule& own) {
        if constexpr (memory_of < Rule >> 0) own.remember(input, eta, memory);
      },
      rule);
}

std::size_t memory_size(const StepRule& rule) {
  return std::visit([]<class Rule>(const Rule&) { return memory_of<Rule>; }, rule);
}

void require_rule_memory(std::string_view where, const StepRule& rule,
                         std::span<const double> memory, bool may_be_left_out) {
  const std::size_t size = memory_size(rule);
  if (memory.size() != size && !(memory.empty() && may_be_left_out)) {
    throw_invalid(
        where, "the rule '", rule, "' remembers ", size, " numbers, got ", memory.size(),
        size == 0 ? "" : ": pass what rule_memory() gave, or zeros to start the rule afresh");
  }
  if (!memory.empty()) require_possible(where, rule, memory);
}

double max_eta(const StepRule& rule) {
  return std::visit([](const auto& own) { return own.max_eta(); }, rule);
}

double rho(const StepRule& rule) {
  return std::visit(
      [](const auto& own) {
        if constexpr (requires { own.rho; }) {
          return own.rho;
        } else {
          return 1.0;
        }
      },
      rule);
}

void set_rho(StepRule& rule, double rho) {
  std::visit(
      [&]<class Rule>(Rule& own) {
        if constexpr (requires { own.rho = rho; } && clips<Rule>) {
          own.rho = rho;
        } else {
          throw_invalid("set_rho", "the rule '", rule, "' does not clip",
                        clips<Rule> ? " at a rho of yours" : "",
                        "; the clipping ones are 'clipped' and 'short_step'");
        }
      },
      rule);
}

bool is_clipped(const StepRule& rule, double eta) {
  const bool cut = std::visit([]<class Rule>(const Rule&) { return clips<Rule>; }, rule);
  return cut && eta > 0 && eta >= max_eta(rule);
}

double threshold(const StepRule& rule, std::span<const double> memory) {
  return std::visit(
      [&]<class Rule>(const Rule& own) {
        if constexpr (requires { own.rho(memory); }) {
          return own.rho(memory);
        } else if constexpr (clips<Rule>) {
          return own.rho;
        } else {
          return 0.0;
        }
      },
      rule);
}

std::string standstill(const StepRule& rule, const StepInput& input, double last) {
  const auto* const own = std::get_if<DistanceAware>(&rule);
  const bool begun = std::ranges::any_of(input.memory, [](double number) { return number != 0; });
  if (own == nullptr || !begun || !(last > 0) || input.distance != 0) return {};
  return "a step of the stepsize '" + to_string(rule) + "' was " + number_text(last) +
         " long in units of the radii and changed no weight: near 1 the numbers of bfloat16 are " +
         "0.0078 apart, those of float16 0.00098. Nothing moves. Give a larger first, such as " +
         "distance_aware(first=" + number_text(std::max(0.01, 10 * own->first)) +
         "), or keep the weights in float32";
}

bool needs_direction_norm(const StepRule& rule) {
  return std::visit(
      [](const auto& own) {
        if constexpr (requires { own.needs_direction_norm(); }) {
          return own.needs_direction_norm();
        } else {
          return false;
        }
      },
      rule);
}

bool needs_distance(const StepRule& rule) {
  return std::visit(
      []<class Rule>(const Rule&) {
        return requires { Rule::needs_distance; };
      },
      rule);
}

bool needs_loss(const StepRule& rule) {
  return std::visit(
      []<class Rule>(const Rule&) {
        return requires(const Rule& own) { own.require_loss(0); };
      },
      rule);
}

void require_loss(std::string_view where, const StepRule& rule, std::optional<double> loss) {
  if (needs_loss(rule) && !loss) {
    throw_invalid(where, "the rule '", rule,
                  "' needs the loss at the weights of this step: pass it ", "to step()");
  }
  std::visit(
      [&](const auto& own) {
        if constexpr (requires { own.require_loss(0); }) own.require_loss(*loss);
      },
      rule);
}

void validate(const StepRule& rule) {
  std::visit([](const auto& own) { own.validate(); }, rule);
}

StepRule parse_step_rule(std::string_view text) {
  auto call = TextCall::parse("parse_step_rule", text);
  StepRule rule;
  if (!parse_any(call, rule)) {
    throw_invalid("parse_step_rule", unknown_name("rule", call.name, rule_names));
  }
  call.require_all_taken();
  validate(rule);
  return rule;
}

StepRule parse_stepsize(std::string_view text) {
  constexpr auto where = "parse_stepsize";
  const auto call = TextCall::parse(where, text);
  const auto names = stepsize_names();
  if (std::ranges::find(names, call.name) != names.end()) return parse_step_rule(text);
  if (std::ranges::find(rule_names, call.name) != rule_names.end()) refuse_stepsize(where, text);
  throw_invalid(where, unknown_name("stepsize", call.name, names));
}

void require_stepsize(std::string_view where, const StepRule& rule) {
  if (memory_size(rule) == 0) refuse_stepsize(where, to_string(rule));
}

std::string to_string(const StepRule& rule) {
  return std::visit([](const auto& own) { return own.text(); }, rule);
}

std::ostream& operator<<(std::ostream& out, const StepRule& rule) { return out << to_string(rule); }

}  // namespace normball
