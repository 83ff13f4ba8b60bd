// How far to go: eta as a function of s = Σ_l <d_l, v_l>, one number for the whole model.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "normball/rules_with_memory.h"
#include "normball/step_input.h"

namespace normball {

struct TextCall;

// A rule says eta and the most it can be, checks its numbers, and has a text form. What it may say
// beside: that it `clips` (eta is cut at its rho), that it needs ‖v‖, ‖x − x_0‖ or the loss, and
// that it has a memory of `memory_size` numbers. Those with a memory are in rules_with_memory.h.

// eta = rho. uCG, Normalized GD, Scion, LARS, Muon-like.
struct Normalized {
  double rho = 1;
  friend bool operator==(const Normalized&, const Normalized&) = default;

  static constexpr std::string_view name = "normalized";
  double eta(const StepInput& input) const;
  double max_eta() const;
  void validate() const;
  static Normalized parse(TextCall& call);
  std::string text() const;
};

// eta = s. Steepest descent; GD in the Euclidean norm.
struct Steepest {
  friend bool operator==(const Steepest&, const Steepest&) = default;

  static constexpr std::string_view name = "steepest";
  double eta(const StepInput& input) const;
  double max_eta() const;
  void validate() const;
  static Steepest parse(TextCall& call);
  std::string text() const;
};

// eta = min(rho, s). GGNC and (Unconstrained) ClippedScion; in the constrained method this is the
// form of the paper's experiments, with the 4 of the short step absorbed into rho.
struct Clipped {
  double rho = 1;
  friend bool operator==(const Clipped&, const Clipped&) = default;

  static constexpr std::string_view name = "clipped";
  static constexpr bool clips = true;
  double eta(const StepInput& input) const;
  double max_eta() const;
  void validate() const;
  static Clipped parse(TextCall& call);
  std::string text() const;
};

// The Frank-Wolfe short step, clipped. ByNorm (variant 1): eta = min(rho, s / (beta ‖v‖)²).
// ByDiameter (variant 2): eta = min(rho, s / (2 beta)²). ‖v‖ is the product norm, in which the ball
// has radius 1: beta = 1 is Algorithm 4 as printed. Algorithm 2 as printed measures v without the
// radius: there beta is the radius, and eta is smaller by beta².
struct ShortStep {
  enum class Variant { ByNorm, ByDiameter };
  double rho = 1;
  Variant variant = Variant::ByNorm;
  double beta = 1;
  friend bool operator==(const ShortStep&, const ShortStep&) = default;

  static constexpr std::string_view name = "short_step";
  static constexpr bool clips = true;
  bool needs_direction_norm() const { return variant == Variant::ByNorm; }
  double eta(const StepInput& input) const;
  double max_eta() const;
  void validate() const;
  static ShortStep parse(TextCall& call);
  std::string text() const;
};

// eta = 2 / (k + 2), k = 0, 1, ...: classical Frank-Wolfe.
struct OpenLoop {
  friend bool operator==(const OpenLoop&, const OpenLoop&) = default;

  static constexpr std::string_view name = "open_loop";
  double eta(const StepInput& input) const;
  double max_eta() const;
  void validate() const;
  static OpenLoop parse(TextCall& call);
  std::string text() const;
};

// eta = s / (l0 + l1 s): steepest descent with the stepsize 1 / (L0 + L1 ‖d‖*).
struct Adaptive {
  double l0 = 1;
  double l1 = 1;
  friend bool operator==(const Adaptive&, const Adaptive&) = default;

  static constexpr std::string_view name = "adaptive";
  double eta(const StepInput& input) const;
  double max_eta() const;
  void validate() const;
  static Adaptive parse(TextCall& call);
  std::string text() const;
};

// A rule that is named here is known to the whole library. See docs/extending.md.
using StepRule = std::variant<Normalized, Steepest, Clipped, ShortStep, OpenLoop, Adaptive, AdaGrad,
                              DistanceAware, Momo, AutoClipped>;

// Never negative: where s < 0 (a start outside the ball, an inexact LMO) a rule that depends on s
// gives 0. NaN where s or ‖v‖ is NaN: no rule makes a step of it. Throws where a rule with a memory
// comes without it. It only looks: when the step is taken, remember() changes the memory.
double eta(const StepRule& rule, const StepInput& input);
void remember(const StepRule& rule, StepInput input, double eta, std::span<double> memory);
std::size_t memory_size(const StepRule& rule);  // 0 for a rule without a memory
// Throws for a memory, of a checkpoint, that is not the rule's: one of another size, unless it may
// be left out and is, or with numbers that the rule cannot have left in it.
void require_rule_memory(std::string_view where, const StepRule& rule,
                         std::span<const double> memory, bool may_be_left_out);

// The largest eta the rule can give; infinity for Steepest.
double max_eta(const StepRule& rule);

// The user's lr is gamma rho, so gamma = lr / rho. Rules without a rho count as rho = 1.
double rho(const StepRule& rule);

// Another rho for a rule that clips (Clipped, ShortStep); an error for the others.
void set_rho(StepRule& rule, double rho);

// Whether the rule clips, and cut eta at rho.
bool is_clipped(const StepRule& rule, double eta);
// The rho that the rule clips with, also where it finds it itself from its memory. 0 where it does
// not clip, or not yet.
double threshold(const StepRule& rule, std::span<const double> memory);

// Of a rule that measures the distance from the start: what to tell the user where the step before,
// `last` = γη long, has left every weight there, since it was below the spacing of their type. No
// step is longer before something moves. Else empty.
std::string standstill(const StepRule& rule, const StepInput& input, double last);

bool needs_direction_norm(const StepRule& rule);
bool needs_distance(const StepRule& rule);
bool needs_loss(const StepRule& rule);
// Throws where the rule needs a loss and there is none, or one that it cannot be. One that is not
// finite is let through: a step deals with it as with a gradient.
void require_loss(std::string_view where, const StepRule& rule, std::optional<double> loss);

void validate(const StepRule& rule);

// "normalized", "steepest", "clipped(rho=600)", "short_step(rho=1, diameter, beta=2)", "open_loop",
// "adaptive(l0=1, l1=2)", "adagrad", "distance_aware(first=1e-05)", "momo(f_star=0.5)",
// "auto_clipped(quantile=0.9)".
StepRule parse_step_rule(std::string_view text);
// Of these, the rules that find the stepsize by what they have seen: what the option `stepsize`
// takes, in every interface. The others are those of methods, and come with them.
StepRule parse_stepsize(std::string_view text);
void require_stepsize(std::string_view where, const StepRule& rule);
std::string to_string(const StepRule& rule);
std::ostream& operator<<(std::ostream& out, const StepRule& rule);

}  // namespace normball
