// The momentum estimator of Algorithms 1-4:  d <- alpha g + (1 - alpha) d,  with d = 0 at first.
#pragma once

#include "normball/kernels.h"

namespace normball {

template <class T>
void update_momentum(MatrixView<T> d, ConstMatrixView<T> g, double alpha) {
  for_each_run(d, g,
               [alpha](T* to, const T* from, Index n) { kernels<T>().blend(to, from, alpha, n); });
}

// The light form keeps b = d / alpha in the gradient buffer, where the next gradient is added to
// it:
//   b_k = g_k + carry b_{k-1},  carry = (1 - alpha_k) alpha_{k-1} / alpha_k.
// The LMO ignores the factor alpha between b and d; the dual norm does not.
inline double light_carry(double alpha, double next_alpha) {
  return (1 - next_alpha) * alpha / next_alpha;
}

}  // namespace normball
