// Rules that find their stepsize from what they have seen. They remember a few numbers from step to
// step, which a checkpoint must hold: Optimizer::rule_memory(), or the driver's own where it joins
// parts. All zeros mean that nothing was seen yet; may_remember() tells numbers that remember() can
// have left from others. What is proved of them: docs/stepsizes.md.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "normball/step_input.h"

namespace normball {

struct TextCall;

// eta = s / b_k,  b_k² = b0² + Σ_{i<=k} s_i²: AdaGrad with one number for the whole model, in its
// norm. At most 1, so lr is the longest step; with b0 = 0 it is the first one, and the scale of the
// loss does not matter.
struct AdaGrad {
  double b0 = 0;
  friend bool operator==(const AdaGrad&, const AdaGrad&) = default;

  static constexpr std::string_view name = "adagrad";
  static constexpr std::size_t memory_size = 1;  // b
  double eta(const StepInput& input) const;
  void remember(const StepInput& input, double eta, std::span<double> memory) const;
  double max_eta() const;
  bool may_remember(std::span<const double> memory) const;
  void validate() const;
  static AdaGrad parse(TextCall& call);
  std::string text() const;
};

// eta = c_k · c_k s_k / √(Σ_{i<=k} c_i² s_i²),  c_k = min(most, max(first, max_{i<=k} ‖x_i −
// x_0‖)): no step is longer than the distance travelled so far (DoWG in the model's norm). With lr
// = 1 `first` only has to be small, but above the spacing of the weights' type: standstill() tells.
// Without `most` c can grow without end where gradients are noisy: docs/stepsizes.md. Keeps x_0,
// and measures ‖x − x_0‖ at every step.
struct DistanceAware {
  double first = 1e-4;
  double most = std::numeric_limits<double>::infinity();
  friend bool operator==(const DistanceAware&, const DistanceAware&) = default;

  static constexpr std::string_view name = "distance_aware";
  static constexpr std::size_t memory_size = 2;  // c, √Σ c² s²
  static constexpr bool needs_distance = true;
  double eta(const StepInput& input) const;
  void remember(const StepInput& input, double eta, std::span<double> memory) const;
  double max_eta() const;
  bool may_remember(std::span<const double> memory) const;
  void validate() const;
  static DistanceAware parse(TextCall& call);
  std::string text() const;
};

// γη = min(γ, (f̂ − w f*)₊ / s): as far as the linear model of the loss needs to fall to f_star, a
// lower bound of the loss, but at most lr (Momo, in the model's norm). f̂ averages the linear models
// f(x_i) + <g_i, x − x_i> as d averages the gradients g_i, and w is the sum of its weights. With
// alpha = 1 that is (f(x) − f*) / s, Polyak's step.
struct Momo {
  double f_star = 0;
  friend bool operator==(const Momo&, const Momo&) = default;

  static constexpr std::string_view name = "momo";
  static constexpr std::size_t memory_size = 2;  // f̂ at the point after the step, w
  double eta(const StepInput& input) const;
  void remember(const StepInput& input, double eta, std::span<double> memory) const;
  double max_eta() const;
  void require_loss(double loss) const;  // throws where it is below f_star
  bool may_remember(std::span<const double> memory) const;
  void validate() const;
  static Momo parse(TextCall& call);
  std::string text() const;
};

// eta = min(1, s / rho_k), rho_k the quantile of the s of the last `window` steps before this one:
// clipping with a threshold that follows the run. It is the smallest s that at least this share of
// them do not exceed, so of an even number the lower median; steps with s <= 0 are not among them.
// The first step, which has no rho yet (0), is lr long and counts as clipped; none is longer.
struct AutoClipped {
  double quantile = 0.5;
  friend bool operator==(const AutoClipped&, const AutoClipped&) = default;

  static constexpr std::string_view name = "auto_clipped";
  static constexpr bool clips = true;
  static constexpr std::size_t window = 100;
  static constexpr std::size_t memory_size = 1 + window;  // how many were seen, and the last ones
  double rho(std::span<const double> memory) const;       // 0 before the first step
  double eta(const StepInput& input) const;
  void remember(const StepInput& input, double eta, std::span<double> memory) const;
  double max_eta() const;
  bool may_remember(std::span<const double> memory) const;
  void validate() const;
  static AutoClipped parse(TextCall& call);
  std::string text() const;
};

}  // namespace normball
