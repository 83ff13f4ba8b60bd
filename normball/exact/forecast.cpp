#include "normball/exact/forecast.h"

#include <algorithm>
#include <cmath>

#include "normball/blas.h"
#include "normball/exact/spectrum.h"
#include "normball/exact/tuning.h"
#include "normball/kernels.h"

namespace normball::detail {
namespace {

// A bound of the largest eigenvalue of r: the smaller of its trace and its largest row sum.
template <class T>
double largest_bound(ConstMatrixView<T> r, Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const auto sums = workspace.take<double>(r.rows);
  std::ranges::fill(sums, 0.0);
  double trace = 0;
  for (Index i = 0; i < r.rows; ++i) {
    const T* row = r.row(i);
    trace += static_cast<double>(row[i]);
    sums[static_cast<size_t>(i)] += kernels<T>().sum_abs(row + i, r.cols - i);
    for (Index j = i + 1; j < r.cols; ++j) {
      sums[static_cast<size_t>(j)] += std::abs(static_cast<double>(row[j]));
    }
  }
  return std::min(trace, *std::ranges::max_element(sums));
}

}  // namespace

// The squared mean of the eigenvalues over their mean square: 1/2 for a square Gaussian matrix, at
// most 1 - p where a share p is zero. And zero rows of x, the commonest zeros, show on the
// diagonal.
template <class T>
bool looks_flat(ConstMatrixView<T> r) {
  constexpr double least_flatness = 0.4, least_diagonal = 0.25;
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
bool many_are_small(ConstMatrixView<T> r, MatrixView<T> scratch, Workspace& workspace) {
  constexpr double excess = 8;  // of a pivot over the eigenvalue it stands for
  const Index n = r.rows;
  const double shift = Tuning<T>::clean_ratio(n) * largest_bound(r, workspace);
  for (Index i = 0; i < n; ++i) {
    std::copy_n(r.row(i) + i, n - i, scratch.row(i) + i);
    scratch(i, i) += static_cast<T>(shift);
  }
  if (!blas::cholesky(scratch)) return false;
  Index small = 0;
  for (Index i = 0; i < n; ++i) {
    const double pivot = scratch(i, i);
    small += pivot * pivot < excess * shift ? 1 : 0;
  }
  return small > most_deflated<T>(n);
}

#define NORMBALL_INSTANTIATE(T)                 \
  template bool looks_flat(ConstMatrixView<T>); \
  template bool many_are_small(ConstMatrixView<T>, MatrixView<T>, Workspace&);
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball::detail
