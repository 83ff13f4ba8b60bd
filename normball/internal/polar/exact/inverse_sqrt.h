// 1/sqrt of a tridiagonal matrix through a sum of poles. Internal.
#pragma once

#include <cmath>

#include "normball/internal/polar/exact/tridiagonal.h"

namespace normball::detail {

// 1/sqrt(λ) ≈ Σ weight / (λ + pole) on [low, high]: the midpoint rule after an elliptic
// substitution (Hale, Higham, Trefethen 2008), as good as Zolotarev's best approximation.
struct Quadrature {
  static constexpr int most_poles = 96;
  int count = 0;
  double weight[most_poles], pole[most_poles];

  Quadrature(double low, double high, double tolerance);
  double operator()(double lambda) const;
  // The sum of some of the poles, which ascend.
  Quadrature poles(int begin, int end) const;

 private:
  Quadrature() = default;
};

// What to take out of 1/sqrt on [low, high] before a transformation whose errors are proportional
// to the rest: relative to 1/sqrt they are then nowhere more than (√high - √low) / (√high + √low)
// times those of the transformation. The mean of 1/sqrt, many times 1/√high where the spectrum is
// not flat, would leave that many times more at the largest eigenvalues.
inline double centre_of(double low, double high) { return 2 / (std::sqrt(low) + std::sqrt(high)); }

// The upper triangle of f <- q(T + shift).
template <class T, class F>
void inverse_sqrt(const Tridiagonal<T>& t, double shift, const Quadrature& q, MatrixView<F> f,
                  Workspace& workspace);

}  // namespace normball::detail
