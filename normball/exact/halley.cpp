#include "normball/exact/halley.h"

#include <algorithm>
#include <cmath>

#include "normball/blas.h"
#include "normball/exact/spectrum.h"
#include "normball/exact/start_vector.h"
#include "normball/exact/tuning.h"
#include "normball/kernels.h"

namespace normball::detail {
namespace {

using blas::Op;

constexpr double worthwhile_share = 0.08;  // of small directions; deflation is cheaper below

// The map x (a + b x²) / (1 + c x²) that is best on [l, 1] (Nakatsukasa, Bai, Gygi 2010).
struct Halley {
  double a, b, c;

  explicit Halley(double l) {
    const double l2 = l * l, d = std::cbrt(4 * (1 - l2) / (l2 * l2)), root = std::sqrt(1 + d);
    a = root + std::sqrt(std::max(0.0, 8 - 4 * d + 8 * (2 - l2) / (l2 * root))) / 2;
    b = (a - 1) * (a - 1) / 4;
    c = a + b - 1;
  }
};

// p <- the Cholesky factor of I + c r; false if it breaks down.
template <class T>
bool factor_shifted(double c, ConstMatrixView<T> r, MatrixView<T> p) {
  for (Index i = 0; i < r.rows; ++i) {
    kernels<T>().add_scaled(p.row(i) + i, 0, r.row(i) + i, c, 1, r.cols - i);
    p(i, i) += T(1);
  }
  return blas::cholesky(p);
}

// The smallest eigenvalue of uᵀ u, from above, by inverse iteration.
template <class T>
double smallest_eigenvalue(ConstMatrixView<T> u, Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const Index n = u.rows;
  const auto x = workspace.take<T>(n);
  fill_start_vector(x);
  double value = 0;
  for (int step = 0; step < 5; ++step) {
    kernels<T>().scale(x.data(), 1 / l2_norm(x.data(), n), n);
    blas::solve_triangular(u, Op::Transpose, x.data());
    value = 1 / kernels<T>().sum_squares(x.data(), 1, n);
    blas::solve_triangular(u, Op::None, x.data());
  }
  return value;
}

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

// The pivots of the Cholesky factor of I + c r / top stand for its eigenvalues. Since they exceed
// them, the smallest eigenvalue itself is asked for where nothing can be deflated instead.
template <class T>
bool many_are_small(ConstMatrixView<T> u, double c, Workspace& workspace) {
  const double threshold = std::max(10.0, 4 * c * Tuning<T>::clean_ratio(u.rows));
  if (most_deflated(u.rows) == 0) return smallest_eigenvalue(u, workspace) < threshold;
  Index small = 0;
  for (Index i = 0; i < u.rows; ++i) {
    const double pivot = u(i, i);
    small += pivot * pivot < threshold ? 1 : 0;
  }
  return static_cast<double>(small) >= worthwhile_share * static_cast<double>(u.rows);
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

// (a + b R)(I + c R)⁻¹ = b/c I + (a - b/c)(I + c R)⁻¹, with R scaled by its bound `top`.
template <class T>
bool halley_factor(ConstMatrixView<T> r, bool lifted, MatrixView<T> p, Workspace& workspace) {
  const double top = largest_bound(r, workspace);
  if (!(top > 0)) return false;
  constexpr double least = Tuning<T>::least;  // keeps c times the noise of R below 1
  Halley h(least);
  if (!factor_shifted(h.c / top, r, p) || !many_are_small<T>(p, h.c, workspace)) return false;
  const double lambda = (smallest_eigenvalue<T>(p, workspace) - 1) / h.c;
  if (lifted && lambda < 2 * Tuning<T>::noise) return false;
  const double l = std::min(0.3, 0.7 * std::sqrt(std::max(0.0, lambda)));
  if (l > 1.5 * least) {
    h = Halley(l);
    if (!factor_shifted(h.c / top, r, p)) return false;
  }
  if (!blas::invert_cholesky(p)) return false;
  const double limit = h.b / h.c;
  for (Index i = 0; i < p.rows; ++i) {
    kernels<T>().scale(p.row(i) + i, (h.a - limit) / std::sqrt(top), p.cols - i);
    p(i, i) += static_cast<T>(limit / std::sqrt(top));
  }
  return true;
}

template bool looks_flat(ConstMatrixView<float>);
template bool looks_flat(ConstMatrixView<double>);
template bool halley_factor(ConstMatrixView<float>, bool, MatrixView<float>, Workspace&);
template bool halley_factor(ConstMatrixView<double>, bool, MatrixView<double>, Workspace&);

}  // namespace normball::detail
