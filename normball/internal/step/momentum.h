// The momentum estimator of Algorithms 1-4:  d <- alpha g + (1 - alpha) d,  with d = 0 at first.
#pragma once

#include "normball/internal/kernels/kernels.h"

namespace normball {

// out <- the next d; out may be d itself.
template <class T>
void next_momentum(ConstMatrixView<T> d, ConstMatrixView<T> g, double alpha, MatrixView<T> out) {
  if (d.empty()) return;
  const bool dense = d.contiguous() && g.contiguous() && out.contiguous();
  const Index runs = dense ? 1 : d.rows, length = dense ? d.size() : d.cols;
  for (Index i = 0; i < runs; ++i) {
    kernels<T>().blend(out.row(i), d.row(i), g.row(i), alpha, length);
  }
}

// The light form keeps b = d / alpha in the gradient buffer, where the next gradient is added to
// it:
//   b_k = g_k + carry b_{k-1},  carry = (1 - alpha_k) alpha_{k-1} / alpha_k.
// The LMO ignores the factor alpha between b and d; the dual norm does not.
inline double light_carry(double alpha, double next_alpha) {
  return (1 - next_alpha) * alpha / next_alpha;
}

}  // namespace normball
