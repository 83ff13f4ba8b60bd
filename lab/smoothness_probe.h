// Estimates non-Euclidean (L0, L1) from gradients: pairs (‖∇f(x)‖*, ‖∇f(x) − ∇f(y)‖* / ‖x − y‖) and
// the lowest line above all of them. Knows nothing of where the gradients come from.
//
//   SmoothnessProbe probe(layers);
//   probe.observe(x, gradient);                     // along a trajectory, or
//   probe.explore(x, gradient_at, directions);      // around a point, with a gradient callback
//   const Suggestion s = suggest(probe.fit());      // rho = L0/L1, gamma = 1/(L0 + rho L1)
#pragma once

#include <functional>
#include <numbers>
#include <span>
#include <vector>

#include "normball/product_norm.h"
#include "normball/random.h"

namespace normball::lab {

struct SmoothnessPair {
  double dual_norm = 0;  // ‖∇f(x)‖*
  double ratio = 0;      // ‖∇f(x) − ∇f(y)‖* / ‖x − y‖
};

struct SmoothnessFit {
  double l0 = 0;
  double l1 = 0;
  size_t pairs = 0;
};

// The line l0 + l1 a with l0, l1 >= 0 that lies above all pairs and has the least mean of
// (l0 + l1 a_i) / b_i over them: relative heights, so that the small gradients near a solution
// count as much as the large ones far away.
SmoothnessFit upper_envelope(std::span<const SmoothnessPair> pairs);

struct Suggestion {
  double rho = 0;    // l0 / l1; infinite where l1 = 0: no clipping is needed
  double gamma = 0;  // 1 / (margin (l0 + rho l1))
  double lr = 0;     // gamma rho, what the methods take; gamma itself where rho is infinite
};
// The margin covers what the pairs did not see. 1/ln 2 turns curvatures (pairs close together) into
// the constants of the first-order condition, whose pairs are up to 1/L1 apart.
Suggestion suggest(const SmoothnessFit& fit, double margin = 1.25 / std::numbers::ln2);

class SmoothnessProbe {
 public:
  using Views = std::span<const MatrixView<double>>;
  // Writes ∇f(x) into the second.
  using GradientAt = std::function<void(Views x, Views gradient)>;

  explicit SmoothnessProbe(std::vector<Layer> layers, Combination combination = Combination::Max);

  // Pairs this point with the one before; what was seen at x or at y counts for both of them.
  void observe(Views x, Views gradient) { observe_any<double>(x, gradient); }
  void observe(std::span<const MatrixView<float>> x, std::span<const MatrixView<float>> gradient) {
    observe_any<float>(x, gradient);
  }
  void forget_last();  // the next observed point begins a new trajectory

  // Pairs x with a point at the given distance, in the direction of largest curvature found: the
  // power method u <- lmo(∇f(x) − ∇f(x + distance u)) climbs from the steepest direction, from the
  // last call's answer, and from `directions` random ones. Costs up to 8 gradients for each.
  void explore(Views x, const GradientAt& gradient_at, double distance = 1e-5, int directions = 2,
               std::uint64_t seed = 0);

  const std::vector<SmoothnessPair>& pairs() const { return pairs_; }
  SmoothnessFit fit() const { return upper_envelope(pairs_); }

 private:
  using Buffers = std::vector<std::vector<double>>;
  std::vector<MatrixView<double>> views(Buffers& buffers) const;
  template <class T>
  void observe_any(std::span<const MatrixView<T>> x, std::span<const MatrixView<T>> gradient);

  ProductNorm norm_;
  Buffers last_x_, last_gradient_, last_direction_;
  double last_dual_ = 0;
  std::vector<SmoothnessPair> pairs_;
};

}  // namespace normball::lab
