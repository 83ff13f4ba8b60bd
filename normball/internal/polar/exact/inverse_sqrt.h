// 1/sqrt of a tridiagonal matrix through a sum of poles. Internal.
#pragma once

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
};

// The upper triangle of f <- q(T + shift).
template <class T, class F>
void inverse_sqrt(const Tridiagonal<T>& t, double shift, const Quadrature& q, MatrixView<F> f,
                  Workspace& workspace);

}  // namespace normball::detail
