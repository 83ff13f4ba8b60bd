#include "normball/search_rule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <vector>

#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball {
namespace {

bool inside(double value) { return value > 0 && value < 1; }

void require_evaluations(std::string_view where, int evaluations) {
  if (evaluations < 1) {
    throw_invalid(where, "evaluations must be at least 1, got ", evaluations);
  }
}

int take_evaluations(TextCall& call, int usual) {
  const double given = call.take_number("evaluations", usual);
  if (!(given >= 1 && given <= 1e6 && given == std::floor(given))) {
    throw_invalid(call.where, "evaluations must be a whole number from 1 to 1000000, got ", given);
  }
  return static_cast<int>(given);
}

std::string option(std::string_view key, double value, double usual) {
  return value == usual ? "" : std::string(key) + "=" + number_text(value);
}

}  // namespace

double Backtracking::first(const SearchInput& input, std::span<double> memory) const {
  return std::min(input.longest, (memory[0] == 0 ? 1 : memory[0]) * input.own);
}
double Backtracking::shorter(double t, const SearchInput&, std::span<double>) const {
  return shrink * t;
}
void Backtracking::end(const SearchInput& input, const SearchReport& report, double t,
                       std::span<double> memory) const {
  memory[0] = (report.accepted ? grow * t : t) / input.own;
}
void Backtracking::validate() const {
  if (!inside(decrease) || !inside(shrink)) {
    throw_invalid("Backtracking", "decrease and shrink must be in (0, 1), got ", decrease, " and ",
                  shrink);
  }
  if (!(std::isfinite(grow) && grow >= 1)) {
    throw_invalid("Backtracking", "grow must be finite and at least 1, got ", grow);
  }
  require_evaluations("Backtracking", evaluations);
}
Backtracking Backtracking::parse(TextCall& call) {
  Backtracking rule;
  rule.decrease = call.take_number("decrease", rule.decrease);
  rule.shrink = call.take_number("shrink", rule.shrink);
  rule.grow = call.take_number("grow", rule.grow);
  rule.evaluations = take_evaluations(call, rule.evaluations);
  return rule;
}
std::string Backtracking::text() const {
  constexpr Backtracking usual;
  return call_text(name, {option("decrease", decrease, usual.decrease),
                          option("shrink", shrink, usual.shrink), option("grow", grow, usual.grow),
                          option("evaluations", evaluations, usual.evaluations)});
}

namespace {

// L0 + L1 σ
double curvature(const SearchInput& input, std::span<const double> memory) {
  return memory[0] + memory[1] * input.slope;
}

}  // namespace

double Smoothness::first(const SearchInput& input, std::span<double> memory) const {
  if (memory[2] == 0) {
    memory[0] = (1 - decrease) * input.slope / input.own;
    memory[1] = memory[0] / input.slope;
    memory[2] = input.slope;
  }
  return std::min(input.longest, 2 * (1 - decrease) * input.slope / curvature(input, memory));
}
// Until the step is shorter: one that the ball has cut is tried once.
double Smoothness::shorter(double t, const SearchInput& input, std::span<double> memory) const {
  double next = t;
  while (next >= t && next > 0) {
    const double own = curvature(input, memory);
    if (input.slope <= memory[2]) {
      memory[0] += own;
    } else {
      memory[1] += own / input.slope;
    }
    next = first(input, memory);
  }
  return next;
}
void Smoothness::end(const SearchInput& input, const SearchReport& report, double t,
                     std::span<double> memory) const {
  if (!report.accepted || report.evaluations > 1) return;
  // None becomes so small beside the other that it would take many refusals to count again.
  constexpr double least = 1e-3;
  const double met = 2 * (report.loss - input.loss + t * input.slope) / (t * t);
  const double factor = std::clamp(margin * met / curvature(input, memory), relax, 1.0);
  const double l0 = factor * memory[0], l1 = factor * memory[1], split = memory[2];
  memory[0] = std::max(l0, least * l1 * split);
  memory[1] = std::max(l1, least * l0 / split);
}
void Smoothness::validate() const {
  if (!inside(decrease)) {
    throw_invalid("Smoothness", "decrease must be in (0, 1), got ", decrease);
  }
  if (!(relax > 0 && relax <= 1)) {
    throw_invalid("Smoothness", "relax must be in (0, 1], got ", relax);
  }
  if (!(std::isfinite(margin) && margin >= 1)) {
    throw_invalid("Smoothness", "margin must be finite and at least 1, got ", margin);
  }
  require_evaluations("Smoothness", evaluations);
}
Smoothness Smoothness::parse(TextCall& call) {
  Smoothness rule;
  rule.decrease = call.take_number("decrease", rule.decrease);
  rule.relax = call.take_number("relax", rule.relax);
  rule.margin = call.take_number("margin", rule.margin);
  rule.evaluations = take_evaluations(call, rule.evaluations);
  return rule;
}
std::string Smoothness::text() const {
  constexpr Smoothness usual;
  return call_text(
      name, {option("decrease", decrease, usual.decrease), option("relax", relax, usual.relax),
             option("margin", margin, usual.margin),
             option("evaluations", evaluations, usual.evaluations)});
}

namespace {

constexpr std::string_view here = "line search";

// The same function in another pass: other kernels may round differently in float32.
void require_same(double loss, double again) {
  constexpr double rounding = 1e-6;
  if (std::abs(again - loss) <= rounding * std::max(std::abs(loss), std::abs(again))) return;
  throw_invalid(here, "the loss is ", number_text(loss), ", but evaluated again at the same ",
                "weights it is ", number_text(again), ": it must be the same function, on the ",
                "same batch, without dropout or other randomness; nothing was changed");
}

template <class Rule>
SearchReport search(const Rule& rule, const SearchInput& input, std::span<double> memory,
                    const std::function<double(double)>& evaluate) {
  SearchReport report{.loss = input.loss, .slope = input.slope};
  if (!(input.slope > 0 && input.own > 0 && input.longest > 0)) return report;
  const bool seen = std::ranges::any_of(memory, [](double number) { return number != 0; });
  if (!seen) require_same(input.loss, evaluate(0));
  double t = rule.first(input, memory);
  while (report.evaluations < rule.evaluations && t > 0) {
    const double found = evaluate(t);
    ++report.evaluations;
    if (std::isnan(found)) {
      throw NonFiniteError(error_message(here, "the loss is NaN after a trial step of ", t,
                                         "; nothing was changed"));
    }
    report.accepted = found <= input.loss - rule.decrease * t * input.slope;
    if (report.accepted) {
      report.step = t;
      report.loss = found;
      break;
    }
    t = rule.shorter(t, input, memory);
  }
  rule.end(input, report, t, memory);
  if (!report.accepted) require_same(input.loss, evaluate(0));
  report.evaluations += static_cast<int>(!seen) + static_cast<int>(!report.accepted);
  return report;
}

}  // namespace

SearchReport search_along(const SearchRule& rule, const SearchInput& input,
                          std::span<double> memory, const std::function<double(double)>& evaluate) {
  require_search_memory(here, rule, memory);
  if (!std::isfinite(input.loss)) {
    throw NonFiniteError(error_message(here, "the loss is ", input.loss, "; nothing was changed"));
  }
  if (!std::isfinite(input.slope) || !std::isfinite(input.own)) {
    throw NonFiniteError(error_message(here, "the slope ", input.slope, " and the step ", input.own,
                                       " must be finite; nothing was changed"));
  }
  std::vector<double> next(memory.begin(), memory.end());
  const auto report = std::visit(
      [&](const auto& own) { return search(own, input, std::span(next), evaluate); }, rule);
  for (const double number : next) {
    if (std::isfinite(number)) continue;
    throw NonFiniteError(error_message(here, "its steps leave the range of numbers: the last was ",
                                       report.step, "; is the loss bounded below? Nothing was ",
                                       "changed"));
  }
  std::ranges::copy(next, memory.begin());
  return report;
}

std::size_t memory_size(const SearchRule& rule) {
  return std::visit([]<class Rule>(const Rule&) { return Rule::memory_size; }, rule);
}

void require_search_memory(std::string_view where, const SearchRule& rule,
                           std::span<const double> memory) {
  if (memory.size() != memory_size(rule)) {
    throw_invalid(where, "the line search '", rule, "' remembers ", memory_size(rule),
                  " numbers, got ", memory.size());
  }
  for (const double number : memory) {
    if (std::isfinite(number) && number >= 0) continue;
    throw_invalid(where, "the memory of the line search '", rule, "' has the entry ", number);
  }
}

void validate(const SearchRule& rule) {
  std::visit([](const auto& own) { own.validate(); }, rule);
}

SearchRule parse_line_search(std::string_view text) {
  auto call = TextCall::parse("parse_line_search", text);
  SearchRule rule;
  if (call.name == Backtracking::name) {
    rule = Backtracking::parse(call);
  } else if (call.name == Smoothness::name) {
    rule = Smoothness::parse(call);
  } else {
    constexpr std::array names = {Backtracking::name, Smoothness::name};
    throw_invalid("parse_line_search", unknown_name("line search", call.name, names));
  }
  call.require_all_taken();
  validate(rule);
  return rule;
}

std::string to_string(const SearchRule& rule) {
  return std::visit([](const auto& own) { return own.text(); }, rule);
}

std::ostream& operator<<(std::ostream& out, const SearchRule& rule) {
  return out << to_string(rule);
}

}  // namespace normball
