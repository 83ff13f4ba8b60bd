// How far to go along a direction, found by trying: rules of a line search, which ask for the loss
// at x − t v until it has fallen enough for the step t,
//
//   f(x − t v) <= f(x) − c t σ,      σ = <∇f(x), v>, which is s where d is the gradient.
//
// They remember a few numbers from step to step, which a checkpoint must hold; all zeros mean that
// nothing was seen yet. What is proved of them: docs/stepsizes.md.
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace normball {

struct TextCall;

// What a search knows before its first trial.
struct SearchInput {
  double loss = 0;   // f(x)
  double slope = 0;  // σ
  double own = 0;    // γη, the step of the method's own rule
  // The longest step there may be: in the ball 1 over the largest lr factor.
  double longest = std::numeric_limits<double>::infinity();
};

struct SearchReport {
  double step = 0;        // t, 0 where no trial was accepted
  double loss = 0;        // f after the step
  double slope = 0;       // σ
  int evaluations = 0;    // of the loss, in this step
  bool accepted = false;  // false: the weights stay, and the next step tries shorter ones
};

// t ← m γη; while the loss has not fallen enough t ← shrink t; then m ← grow t / (γη): the method's
// own step, times a factor that lasts from step to step.
struct Backtracking {
  double decrease = 0.5;  // c, in (0, 1)
  double shrink = 0.5;    // in (0, 1)
  double grow = 2;        // at least 1: how much longer the next step is tried
  int evaluations = 20;   // of the loss along a direction, at most
  friend bool operator==(const Backtracking&, const Backtracking&) = default;

  static constexpr std::string_view name = "backtracking";
  static constexpr std::size_t memory_size = 1;  // m
  double first(const SearchInput& input, std::span<double> memory) const;
  double shorter(double t, const SearchInput& input, std::span<double> memory) const;
  // After the step: t was accepted, or is the one that would be tried next.
  void end(const SearchInput& input, const SearchReport& report, double t,
           std::span<double> memory) const;
  void validate() const;
  static Backtracking parse(TextCall& call);
  std::string text() const;
};

// t = 2(1 − c) σ / (L0 + L1 σ): estimates of (L0, L1)-smoothness in place of γ and ρ. The first
// trial of all is the method's own step, with L0 = L1 σ_1. A refused trial doubles L0 + L1 σ, by L0
// where σ <= σ_1 and by L1 where it is larger. Where the first trial is accepted both shrink
// towards `margin` times the curvature that it met, 2 (f(x − t v) − f(x) + t σ) / t², but at most
// by `relax`.
struct Smoothness {
  double decrease = 0.5;
  double relax = 0.5;  // in (0, 1]; 1: they only grow
  double margin = 2;   // at least 1
  int evaluations = 20;
  friend bool operator==(const Smoothness&, const Smoothness&) = default;

  static constexpr std::string_view name = "smoothness";
  static constexpr std::size_t memory_size = 3;  // L0, L1, σ_1
  double first(const SearchInput& input, std::span<double> memory) const;
  double shorter(double t, const SearchInput& input, std::span<double> memory) const;
  void end(const SearchInput& input, const SearchReport& report, double t,
           std::span<double> memory) const;
  void validate() const;
  static Smoothness parse(TextCall& call);
  std::string text() const;
};

using SearchRule = std::variant<Backtracking, Smoothness>;

// Finds t. evaluate(t) is f(x − t v), and evaluate(0) = f(x): compared with input.loss, up to
// rounding in float32, in the first search of all, and where no trial was accepted. Where σ or the
// method's own step is not positive nothing is tried, and the step is 0. Throws, with the memory as
// before, where these differ, where a trial's loss is NaN, and what evaluate() throws.
SearchReport search_along(const SearchRule& rule, const SearchInput& input,
                          std::span<double> memory, const std::function<double(double)>& evaluate);

std::size_t memory_size(const SearchRule& rule);
// Throws for a memory, of a checkpoint, that is not the rule's. Zeros are one.
void require_search_memory(std::string_view where, const SearchRule& rule,
                           std::span<const double> memory);

void validate(const SearchRule& rule);

// "backtracking", "backtracking(decrease=0.1, shrink=0.8, grow=1.5, evaluations=5)",
// "smoothness(relax=1)".
SearchRule parse_line_search(std::string_view text);
std::string to_string(const SearchRule& rule);
std::ostream& operator<<(std::ostream& out, const SearchRule& rule);

}  // namespace normball
