#include "normball/internal/polar/exact/closing.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "normball/internal/kernels/blas.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/internal/polar/exact/start_vector.h"
#include "normball/internal/polar/exact/tuning.h"
#include "normball/internal/polar/short_side.h"

namespace normball::detail {

template <class T>
void affine(double a, double b, ConstMatrixView<T> e, MatrixView<T> c) {
  const T factor = static_cast<T>(b);
  for (Index i = 0; i < c.rows; ++i) {
    const T* from = e.row(i);
    T* to = c.row(i);
    for (Index j = i; j < c.cols; ++j) to[j] = factor * from[j];
    to[i] += static_cast<T>(a);
  }
  blas::mirror_upper(c);
}

template <class T>
double estimate_norm(ConstMatrixView<T> e, bool on_range, Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const Index n = e.rows;
  auto x = workspace.take<T>(n), y = workspace.take<T>(n);
  const auto multiply = [&] {  // y <- E x
    std::ranges::fill(y, T(0));
    kernels<T>().add_symmetric_rows(y.data(), e.data, e.stride, x.data(), 0, n, n);
  };
  fill_start_vector(x);
  double estimate = 0;
  for (int step = 0; step < 7; ++step) {
    const double norm = l2_norm(x.data(), n);
    if (step > 0) estimate = std::max(estimate, norm);
    if (!(norm > 0)) return 0;
    kernels<T>().scale(x.data(), 1 / norm, n);
    multiply();
    std::swap(x, y);
    if (on_range) {  // x <- R x
      multiply();
      kernels<T>().add_scaled(x.data(), 1, y.data(), -1, 1, n);
    }
  }
  return 1.3 * estimate;
}

template <class T>
int closing_degree(double e) {
  const double loss = Tuning<T>::loss;  // against the first term left out
  if (3.0 / 8 * e * e <= loss) return 1;
  if (35.0 / 128 * std::pow(e, 4) <= loss) return 3;
  if (231.0 / 1024 * std::pow(e, 6) <= loss) return 5;
  return 0;
}

// I + E/2 + E² (3/8 + 5/16 E + E² (35/128 + 63/256 E)): everything commutes with everything.
template <class T>
void closing_polynomial(int degree, MatrixView<T> e, MatrixView<T> p, Workspace& workspace,
                        int threads) {
  const Workspace::Frame frame(workspace);
  const ShortSide<T> side{false, threads};
  affine<T>(1, 0.5, e, p);
  if (degree < 3) return;
  const auto square = workspace.matrix<T>(e.rows, e.rows);
  side.gram(1, e, 0, square);
  if (degree >= 5) {
    const auto inner = workspace.matrix<T>(e.rows, e.rows);
    affine<T>(35.0 / 128, 63.0 / 256, e, inner);
    affine<T>(3.0 / 8, 5.0 / 16, e, e);
    side.multiply(square, inner, 1, e);
  } else {
    affine<T>(3.0 / 8, 5.0 / 16, e, e);
  }
  side.multiply(square, e, 1, p);
}

#define NORMBALL_INSTANTIATE(T)                                            \
  template void affine(double, double, ConstMatrixView<T>, MatrixView<T>); \
  template double estimate_norm(ConstMatrixView<T>, bool, Workspace&);     \
  template int closing_degree<T>(double);                                  \
  template void closing_polynomial(int, MatrixView<T>, MatrixView<T>, Workspace&, int);
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball::detail
