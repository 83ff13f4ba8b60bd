#include "normball/rules_with_memory.h"

#include <algorithm>
#include <cmath>

#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball {
namespace {

// √(before² + next²), 0 for a pairing that makes no step.
double grown(double before, double next) { return std::hypot(before, std::max(0.0, next)); }

std::string option(std::string_view key, double value, double usual) {
  return value == usual ? "" : std::string(key) + "=" + number_text(value);
}

}  // namespace

double AdaGrad::eta(const StepInput& input) const {
  if (input.pairing <= 0) return 0;
  return input.pairing / grown(std::max(b0, input.memory[0]), input.pairing);
}
void AdaGrad::remember(const StepInput& input, double, std::span<double> memory) const {
  memory[0] = grown(std::max(b0, memory[0]), input.pairing);
}
bool AdaGrad::may_remember(std::span<const double> memory) const { return memory[0] >= 0; }
double AdaGrad::max_eta() const { return 1; }
void AdaGrad::validate() const {
  if (!(std::isfinite(b0) && b0 >= 0)) {
    throw_invalid("AdaGrad", "b0 must be finite and not negative, got ", b0);
  }
}
AdaGrad AdaGrad::parse(TextCall& call) { return {call.take_number("b0", 0)}; }
std::string AdaGrad::text() const { return call_text(name, {option("b0", b0, 0)}); }

namespace {

double travelled(const DistanceAware& rule, const StepInput& input) {
  return std::min(rule.most, std::max({rule.first, input.distance, input.memory[0]}));
}

}  // namespace

double DistanceAware::eta(const StepInput& input) const {
  if (input.pairing <= 0) return 0;
  const double c = travelled(*this, input), weighted = c * input.pairing;
  return weighted > 0 ? c * (weighted / grown(input.memory[1], weighted)) : 0;
}
void DistanceAware::remember(const StepInput& input, double, std::span<double> memory) const {
  const double c = travelled(*this, input);
  memory[1] = grown(memory[1], c * input.pairing);
  memory[0] = c;
}
bool DistanceAware::may_remember(std::span<const double> memory) const {
  return memory[0] >= 0 && memory[1] >= 0;
}
double DistanceAware::max_eta() const { return most; }
void DistanceAware::validate() const {
  require_positive("DistanceAware", "first", first);
  if (!(most >= first)) {
    throw_invalid("DistanceAware", "most must be at least first = ", first, ", got ", most);
  }
}
DistanceAware DistanceAware::parse(TextCall& call) {
  constexpr DistanceAware usual;
  const double start = call.take_number("first", usual.first);
  return {start, call.take_number("most", usual.most)};
}
std::string DistanceAware::text() const {
  constexpr DistanceAware usual;
  return call_text(name, {option("first", first, usual.first), option("most", most, usual.most)});
}

namespace {

// f̂ and w at this step.
struct AveragedModel {
  double value, weight;
};
AveragedModel averaged(const StepInput& input) {
  const double keep = 1 - input.alpha;
  return {input.alpha * input.loss + keep * input.memory[0], input.alpha + keep * input.memory[1]};
}

}  // namespace

double Momo::eta(const StepInput& input) const {
  const auto [value, weight] = averaged(input);
  const double above = value - weight * f_star;
  if (above <= 0 || input.slope <= 0) return 0;
  return std::min(1.0, above / (input.gamma * input.slope));
}
void Momo::remember(const StepInput& input, double eta, std::span<double> memory) const {
  const auto [value, weight] = averaged(input);
  memory[0] = value - input.gamma * eta * input.slope;
  memory[1] = weight;
}
bool Momo::may_remember(std::span<const double> memory) const {
  constexpr double rounding = 1e-9;
  return memory[1] >= 0 && memory[1] <= 1 + rounding;
}
double Momo::max_eta() const { return 1; }
void Momo::require_loss(double loss) const {
  if (loss < f_star) {
    throw_invalid("Momo", "the loss is ", loss, ", below f_star = ", f_star,
                  ": give a lower bound of the loss; nothing was changed");
  }
}
void Momo::validate() const {
  if (!std::isfinite(f_star)) throw_invalid("Momo", "f_star must be finite, got ", f_star);
}
Momo Momo::parse(TextCall& call) { return {call.take_number("f_star", 0)}; }
std::string Momo::text() const { return call_text(name, {option("f_star", f_star, 0)}); }

// The smallest of the values that at least this share of them do not exceed; without a copy.
double AutoClipped::rho(std::span<const double> memory) const {
  const double seen = std::min(memory[0], static_cast<double>(window));
  const auto values = memory.subspan(1, static_cast<std::size_t>(seen));
  double result = 0;
  for (const double value : values) {
    const auto below = std::ranges::count_if(values, [&](double each) { return each <= value; });
    const bool enough = static_cast<double>(below) >= quantile * seen;
    if (enough && (result == 0 || value < result)) result = value;
  }
  return result;
}
double AutoClipped::eta(const StepInput& input) const {
  if (input.pairing <= 0) return 0;
  const double threshold = rho(input.memory);
  return threshold > 0 ? std::min(1.0, input.pairing / threshold) : 1;
}
// A step with s <= 0 tells nothing of the size of gradients.
void AutoClipped::remember(const StepInput& input, double, std::span<double> memory) const {
  if (input.pairing <= 0) return;
  const auto at = static_cast<std::size_t>(std::fmod(memory[0], static_cast<double>(window)));
  memory[1 + at] = input.pairing;
  memory[0] += 1;
}
bool AutoClipped::may_remember(std::span<const double> memory) const {
  constexpr double most = 9007199254740992;  // the largest count that a double holds
  const double seen = memory[0];
  if (!(seen >= 0 && seen <= most && seen == std::floor(seen))) return false;
  const auto used = static_cast<std::size_t>(std::min(seen, static_cast<double>(window)));
  return std::ranges::all_of(memory.subspan(1, used), [](double s) { return s > 0; });
}
double AutoClipped::max_eta() const { return 1; }
void AutoClipped::validate() const {
  if (!(quantile > 0 && quantile <= 1)) {
    throw_invalid("AutoClipped", "quantile must be in (0, 1], got ", quantile);
  }
}
AutoClipped AutoClipped::parse(TextCall& call) { return {call.take_number("quantile", 0.5)}; }
std::string AutoClipped::text() const {
  return call_text(name, {option("quantile", quantile, 0.5)});
}

}  // namespace normball
