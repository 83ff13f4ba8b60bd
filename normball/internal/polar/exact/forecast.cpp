#include "normball/internal/polar/exact/forecast.h"

#include <algorithm>
#include <cmath>

#include "normball/internal/kernels/blas.h"
#include "normball/internal/kernels/kernels.h"

namespace normball::detail {

// The squared mean of the eigenvalues over their mean square: 1/2 for a square Gaussian matrix, at
// most 1 - p where a share p is zero. And zero rows of x, the commonest zeros, show on the
// diagonal.
template <class T>
bool looks_flat(ConstMatrixView<T> r) {
  constexpr double least_flatness = 0.25, least_diagonal = 0.25;
  const double n = static_cast<double>(r.rows);
  double trace = 0, squares = 0, smallest = HUGE_VAL;
  for (Index i = 0; i < r.rows; ++i) {
    const double diagonal = r(i, i);
    trace += diagonal;
    smallest = std::min(smallest, diagonal);
    squares += 2 * kernels<T>().sum_squares(r.row(i) + i, 1, r.cols - i) - diagonal * diagonal;
  }
  return trace * trace >= least_flatness * n * squares && smallest * n >= least_diagonal * trace;
}

template <class T>
bool sample_looks_flat(const ShortSide<T>& side, ConstMatrixView<T> x, Workspace& workspace) {
  constexpr double least_flatness = 0.2;
  constexpr Index least = 16, one_in = 8;
  const Workspace::Frame frame(workspace);
  const Index n = side.size(x), count = n / one_in;
  if (count < least) return true;
  const auto sample = side.matrix(count, x, workspace);
  for (Index i = 0; i < sample.rows; ++i) {
    if (side.left) {
      std::copy_n(x.row(i * one_in), x.cols, sample.row(i));
    } else {
      for (Index j = 0; j < count; ++j) sample(i, j) = x(i, j * one_in);
    }
  }
  const auto r = workspace.matrix<T>(count, count);
  side.gram(1, sample, 0, r);
  double trace = 0, diagonal = 0, others = 0;
  for (Index i = 0; i < count; ++i) {
    const double d = r(i, i);
    trace += d;
    diagonal += d * d;
    others += 2 * kernels<T>().sum_squares(r.row(i) + i + 1, 1, count - i - 1);
  }
  const double k = static_cast<double>(count), scale = static_cast<double>(n) / k;
  const double squares = scale * diagonal + scale * (static_cast<double>(n) - 1) / (k - 1) * others;
  return scale * trace * trace >= least_flatness * k * squares;
}

// ‖r‖_F is a bound of the largest eigenvalue, close where few outweigh the others; that of
// Gershgorin's discs, which the plan goes by, may be twice as large.
template <class T>
bool looks_regular(ConstMatrixView<T> r, double ratio, MatrixView<T> scratch) {
  double squares = 0;
  for (Index i = 0; i < r.rows; ++i) {
    const double diagonal = r(i, i);
    squares += 2 * kernels<T>().sum_squares(r.row(i) + i, 1, r.cols - i) - diagonal * diagonal;
    std::copy_n(r.row(i) + i, r.cols - i, scratch.row(i) + i);
  }
  const T shift = static_cast<T>(2 * ratio * std::sqrt(squares));
  for (Index i = 0; i < r.rows; ++i) scratch(i, i) -= shift;
  return blas::cholesky(scratch);
}

// The pivots of three quarters of r are enough.
template <class T>
bool looks_full(ConstMatrixView<T> r, double shift, double level, MatrixView<T> scratch) {
  constexpr double excess = 8;  // of a pivot over the eigenvalue it stands for
  const Index n = 3 * r.rows / 4;
  const auto part = scratch.block(0, 0, n, n);
  for (Index i = 0; i < n; ++i) {
    std::copy_n(r.row(i) + i, n - i, part.row(i) + i);
    part(i, i) += static_cast<T>(shift);
  }
  if (!blas::cholesky(part)) return false;
  Index zero = 0, small = 0;
  for (Index i = 0; i < n; ++i) {
    const double pivot = part(i, i);
    zero += pivot * pivot < excess * shift ? 1 : 0;
    small += pivot * pivot < level ? 1 : 0;
  }
  return 8 * zero <= n && 2 * small <= n;
}

#define NORMBALL_INSTANTIATE(T)                                                         \
  template bool looks_flat(ConstMatrixView<T>);                                         \
  template bool sample_looks_flat(const ShortSide<T>&, ConstMatrixView<T>, Workspace&); \
  template bool looks_regular(ConstMatrixView<T>, double, MatrixView<T>);               \
  template bool looks_full(ConstMatrixView<T>, double, double, MatrixView<T>);
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball::detail
