#include "normball/step_rule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>

#include "normball/error.h"
#include "normball/text.h"

namespace normball {
namespace {

double square(double x) { return x * x; }

struct Eta {
  const StepInput& in;

  double operator()(const Normalized& r) const { return r.rho; }
  double operator()(const Steepest&) const { return in.pairing; }
  double operator()(const Clipped& r) const { return std::min(r.rho, in.pairing); }
  double operator()(const ShortStep& r) const {
    const double length = r.variant == ShortStep::Variant::ByNorm ? in.direction_norm : 2;
    return length == 0 ? 0 : std::min(r.rho, in.pairing / square(r.beta * length));
  }
  double operator()(const OpenLoop&) const { return 2 / (static_cast<double>(in.step) + 2); }
  double operator()(const Adaptive& r) const { return in.pairing / (r.l0 + r.l1 * in.pairing); }
};

struct MaxEta {
  double operator()(const Normalized& r) const { return r.rho; }
  double operator()(const Steepest&) const { return std::numeric_limits<double>::infinity(); }
  double operator()(const Clipped& r) const { return r.rho; }
  double operator()(const ShortStep& r) const { return r.rho; }
  double operator()(const OpenLoop&) const { return 1; }
  double operator()(const Adaptive& r) const { return 1 / r.l1; }
};

struct Validate {
  void operator()(const Normalized& r) const {
    detail::require_positive("Normalized", "rho", r.rho);
  }
  void operator()(const Steepest&) const {}
  void operator()(const Clipped& r) const { detail::require_positive("Clipped", "rho", r.rho); }
  void operator()(const ShortStep& r) const {
    detail::require_positive("ShortStep", "rho", r.rho);
    detail::require_positive("ShortStep", "beta", r.beta);
  }
  void operator()(const OpenLoop&) const {}
  void operator()(const Adaptive& r) const {
    const bool allowed = std::isfinite(r.l0) && std::isfinite(r.l1) && r.l0 >= 0 && r.l1 >= 0;
    if (!allowed || r.l0 + r.l1 == 0) {
      detail::invalid("Adaptive", "l0 and l1 must be finite, not negative and not both 0, got ",
                      r.l0, " and ", r.l1);
    }
  }
};

struct Print {
  std::string operator()(const Normalized& r) const {
    return r.rho == 1 ? "normalized" : "normalized(rho=" + number_text(r.rho) + ")";
  }
  std::string operator()(const Steepest&) const { return "steepest"; }
  std::string operator()(const Clipped& r) const {
    return "clipped(rho=" + number_text(r.rho) + ")";
  }
  std::string operator()(const ShortStep& r) const {
    return "short_step(rho=" + number_text(r.rho) +
           (r.variant == ShortStep::Variant::ByNorm ? ", norm" : ", diameter") +
           (r.beta == 1 ? "" : ", beta=" + number_text(r.beta)) + ")";
  }
  std::string operator()(const OpenLoop&) const { return "open_loop"; }
  std::string operator()(const Adaptive& r) const {
    return "adaptive(l0=" + number_text(r.l0) + ", l1=" + number_text(r.l1) + ")";
  }
};

constexpr std::array<std::string_view, 6> known_rules = {"normalized", "steepest",  "clipped",
                                                         "short_step", "open_loop", "adaptive"};

StepRule parse_name(TextCall& call) {
  if (call.name == "normalized") return Normalized{call.take_number("rho", 1)};
  if (call.name == "steepest") return Steepest{};
  if (call.name == "clipped") return Clipped{call.take_number("rho")};
  if (call.name == "open_loop") return OpenLoop{};
  if (call.name == "adaptive") {
    const double l0 = call.take_number("l0");
    return Adaptive{l0, call.take_number("l1")};
  }
  if (call.name == "short_step") {
    ShortStep rule{.rho = call.take_number("rho"), .beta = call.take_number("beta", 1)};
    call.take_flag("norm");
    if (call.take_flag("diameter")) rule.variant = ShortStep::Variant::ByDiameter;
    return rule;
  }
  detail::invalid("parse_step_rule", unknown_name("rule", call.name, known_rules));
}

}  // namespace

double eta(const StepRule& rule, const StepInput& input) {
  if (std::isnan(input.pairing) || std::isnan(input.direction_norm)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return std::max(0.0, std::visit(Eta{input}, rule));
}

double max_eta(const StepRule& rule) { return std::visit(MaxEta{}, rule); }

double rho(const StepRule& rule) {
  return std::visit(
      [](const auto& r) {
        if constexpr (requires { r.rho; }) {
          return r.rho;
        } else {
          return 1.0;
        }
      },
      rule);
}

void set_rho(StepRule& rule, double rho) {
  if (auto* clipped = std::get_if<Clipped>(&rule)) {
    clipped->rho = rho;
  } else if (auto* short_step = std::get_if<ShortStep>(&rule)) {
    short_step->rho = rho;
  } else {
    detail::invalid("set_rho", "the rule '", rule, "' does not clip; the clipping ones are ",
                    "'clipped' and 'short_step'");
  }
}

bool is_clipped(const StepRule& rule, double eta) {
  const bool clips =
      std::holds_alternative<Clipped>(rule) || std::holds_alternative<ShortStep>(rule);
  return clips && eta > 0 && eta >= max_eta(rule);
}

bool needs_direction_norm(const StepRule& rule) {
  const auto* short_step = std::get_if<ShortStep>(&rule);
  return short_step && short_step->variant == ShortStep::Variant::ByNorm;
}

void validate(const StepRule& rule) { std::visit(Validate{}, rule); }

StepRule parse_step_rule(std::string_view text) {
  auto call = TextCall::parse("parse_step_rule", text);
  StepRule rule = parse_name(call);
  call.require_all_taken();
  validate(rule);
  return rule;
}

std::string to_string(const StepRule& rule) { return std::visit(Print{}, rule); }

std::ostream& operator<<(std::ostream& out, const StepRule& rule) { return out << to_string(rule); }

}  // namespace normball
