#include "normball/internal/polar/exact/small_end.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "normball/internal/kernels/blas.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/internal/polar/exact/small_cluster.h"
#include "normball/internal/polar/exact/tuning.h"

namespace normball::detail {
namespace {

// An interval with one eigenvalue, once it is isolated. All is relative to `scale`.
struct Bracket {
  double low, high;
  bool done = false;
  bool close = false;  // to another, so that it cannot be isolated

  double width() const { return high - low; }
  double middle() const { return (low + high) / 2; }
};

// Of two eigenvalues whose vectors rounding still tells apart.
constexpr double least_gap = 1e-13, floor_of_residuals = 8e-16;

double gap_at(std::span<const Bracket> brackets, size_t j, double limit) {
  const double right = j + 1 < brackets.size() ? brackets[j + 1].low : limit;
  const double gap = right - brackets[j].high;
  return j == 0 ? gap : std::min(gap, brackets[j].low - brackets[j - 1].high);
}

// Narrows the brackets by Sturm counts until each is small against the gaps around it, or `close`.
template <class T>
bool isolate(const Tridiagonal<T>& t, double lowest, double limit, double scale,
             std::span<Bracket> brackets) {
  const auto most_sweeps = 60 * (1 + static_cast<int>(brackets.size()) / sturm_shifts);
  constexpr double narrow = 0.02;
  std::ranges::fill(brackets, Bracket{lowest, limit});
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    const auto left = std::ranges::count(brackets, false, &Bracket::done);
    if (left == 0) return true;
    // Every bracket gets as many shifts; equal ones, which follow each other, share theirs.
    const Index each = std::max<Index>(1, sturm_shifts / left);
    std::array<double, sturm_shifts> shifts;
    std::array<Index, sturm_shifts> counts;
    Index used = 0;
    for (size_t j = 0; j < brackets.size() && used < sturm_shifts;) {
      const Bracket b = brackets[j];
      size_t next = j;
      while (next < brackets.size() && brackets[next].low == b.low) ++next;
      const Index points =
          b.done ? 0 : std::min(sturm_shifts - used, each * static_cast<Index>(next - j));
      for (Index p = 1; p <= points; ++p) {
        shifts[static_cast<size_t>(used++)] =
            b.low + b.width() * static_cast<double>(p) / static_cast<double>(points + 1);
      }
      j = next;
    }
    std::fill(shifts.begin() + used, shifts.end(), limit);
    kernels<T>().sturm_counts(t.diagonal.data(), t.off_diagonal.data(), scale, shifts.data(),
                              counts.data(), t.size());
    for (size_t j = 0; j < brackets.size(); ++j) {
      for (size_t p = 0; p < static_cast<size_t>(used); ++p) {
        if (counts[p] <= static_cast<Index>(j)) {
          brackets[j].low = std::max(brackets[j].low, shifts[p]);
        } else {
          brackets[j].high = std::min(brackets[j].high, shifts[p]);
        }
      }
    }
    for (size_t j = 0; j < brackets.size(); ++j) {
      const double gap = gap_at(brackets, j, limit);
      brackets[j].close = brackets[j].width() > narrow * gap;
      brackets[j].done = !brackets[j].close || brackets[j].width() < narrow * least_gap;
    }
  }
  return false;
}

// The number of the first brackets up to the last one that could not be isolated.
Index clustered(std::span<const Bracket> brackets) {
  Index count = std::ssize(brackets);
  while (count > 0 && !brackets[static_cast<size_t>(count - 1)].close) --count;
  return count;
}

// The values.size() smallest eigenvalues of t, ascending, between lowest and limit, and their
// eigenvectors as the rows of `vectors`. False where they cannot be told apart, unless t is
// positive (semidefinite, up to rounding) and they are in a cluster at zero.
template <class T>
bool bisected_eigenpairs(const Tridiagonal<T>& t, double lowest, double limit, double scale,
                         bool positive, std::span<T> values, MatrixView<T> vectors,
                         Workspace& workspace) {
  constexpr int most_steps = 6;
  constexpr Index lanes = twisted_lanes;
  const Workspace::Frame frame(workspace);
  const Index n = t.size(), count = vectors.rows;
  const auto brackets = workspace.take<Bracket>(count);
  if (!isolate(t, lowest / scale, limit / scale, scale, brackets)) return false;
  const Index close = clustered(brackets);
  if (close > 0 && (std::is_same_v<T, float> || !positive)) return false;
  const auto diagonal = workspace.take<double>(n), off = workspace.take<double>(n);
  for (Index i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    diagonal[at] = static_cast<double>(t.diagonal[at]) / scale;
    off[at] = i + 1 < n ? static_cast<double>(t.off_diagonal[at]) / scale : 0;
  }
  const auto work = workspace.take<double>(4 * n * lanes), z = workspace.take<double>(n * lanes);
  for (Index first = close; first < count; first += lanes) {
    const Index used = std::min(lanes, count - first);
    const auto bracket = [&](Index l) {
      return static_cast<size_t>(first + std::min(l, used - 1));
    };
    double shifts[lanes], pivots[lanes], squares[lanes];
    for (Index l = 0; l < lanes; ++l) shifts[l] = brackets[bracket(l)].middle();
    bool all = false;
    for (int step = 0; step < most_steps && !all; ++step) {
      kernels<double>().twisted_vectors(diagonal.data(), off.data(), shifts, work.data(), z.data(),
                                        pivots, squares, n);
      all = true;
      for (Index l = 0; l < used; ++l) {
        const Bracket& b = brackets[bracket(l)];
        // An eigenvector's error is the residual over the gap.
        const double tolerance = std::max(static_cast<double>(std::numeric_limits<T>::epsilon()) /
                                              2 * gap_at(brackets, bracket(l), limit / scale),
                                          floor_of_residuals);
        if (std::abs(pivots[l]) <= tolerance * std::sqrt(squares[l])) continue;
        shifts[l] = std::clamp(shifts[l] + pivots[l] / squares[l], b.low, b.high);
        all = false;
      }
    }
    if (!all) return false;
    for (Index l = 0; l < used; ++l) {
      const double length = std::sqrt(squares[l]);
      values[static_cast<size_t>(first + l)] = static_cast<T>(shifts[l] * scale);
      T* row = vectors.row(first + l);
      for (Index i = 0; i < n; ++i) {
        row[i] = static_cast<T>(z[static_cast<size_t>(i * lanes + l)] / length);
      }
    }
  }
  if constexpr (std::is_same_v<T, double>) {
    if (close > 0 &&
        !small_cluster(t, brackets[static_cast<size_t>(close - 1)].high * scale, limit, scale,
                       vectors.row_range(close, count), values.first(static_cast<size_t>(close)),
                       vectors.row_range(0, close), workspace)) {
      return false;
    }
  }
  // Vectors of close eigenvalues are orthogonal only up to the floor over their gap.
  const auto products = workspace.matrix<T>(count, count);
  blas::syrk<T>(1, vectors, blas::Op::None, 0, products);
  if (!blas::cholesky(products)) return false;
  blas::solve_triangular_left<T>(products, vectors);
  return true;
}

// The same from LAPACK, which has absolute thresholds: a power of two brings T near 1.
template <class T>
bool lapack_eigenpairs(const Tridiagonal<T>& t, double scale, std::span<T> values,
                       MatrixView<T> vectors, Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const int exponent = -std::ilogb(scale);
  const auto scaled = Tridiagonal<T>::take(t.size(), workspace);
  const auto scale_into = [&](std::span<const T> from, std::span<T> to, Index n) {
    kernels<T>().add_scaled(to.data(), 0, from.data(), std::ldexp(1, exponent), 1, n);
  };
  const auto restart = [&] {
    scale_into(t.diagonal, scaled.diagonal, t.size());
    scale_into(t.off_diagonal, scaled.off_diagonal, t.size() - 1);
  };
  restart();
  if (!blas::smallest_eigenpairs(scaled.diagonal, scaled.off_diagonal, values, vectors,
                                 workspace)) {
    restart();
    const auto all = workspace.matrix<T>(t.size(), t.size());
    if (!blas::eigenpairs(scaled.diagonal, scaled.off_diagonal, all, workspace)) return false;
    std::copy_n(scaled.diagonal.begin(), values.size(), values.begin());
    copy<T>(all.row_range(0, vectors.rows), vectors);
  }
  kernels<T>().scale(values.data(), std::ldexp(1, -exponent), vectors.rows);
  return true;
}

template <class T>
bool lowest_eigenpairs(const Tridiagonal<T>& t, double lowest, double limit, double scale,
                       bool positive, std::span<T> values, MatrixView<T> vectors,
                       Workspace& workspace) {
  return bisected_eigenpairs(t, lowest, limit, scale, positive, values, vectors, workspace) ||
         lapack_eigenpairs(t, scale, values, vectors, workspace);
}

}  // namespace

template <class T>
bool smallest_eigenpairs(const Tridiagonal<T>& t, double limit, double scale, std::span<T> values,
                         MatrixView<T> vectors, Workspace& workspace) {
  return lowest_eigenpairs(t, -16 * Tuning<T>::noise * scale, limit, scale, true, values, vectors,
                           workspace);
}

template <class T>
bool largest_eigenpairs(const Tridiagonal<T>& t, double limit, double scale, std::span<T> values,
                        MatrixView<T> vectors, Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const auto negative = Tridiagonal<T>::take(t.size(), workspace);
  std::ranges::transform(t.diagonal, negative.diagonal.begin(), std::negate<T>());
  std::transform(t.off_diagonal.begin(), t.off_diagonal.end() - 1, negative.off_diagonal.begin(),
                 std::negate<T>());
  if (!lowest_eigenpairs(negative, -1.01 * scale, -limit, scale, false, values, vectors,
                         workspace)) {
    return false;
  }
  std::ranges::transform(values, values.begin(), std::negate<T>());
  return true;
}

template <class T>
bool split_small_end(const Tridiagonal<T>& t, double limit, double scale, const Quadrature& f,
                     double shift, MatrixView<T> factor, MatrixView<T> vectors,
                     Workspace& workspace) {
  if (vectors.rows == 0) return true;
  const Workspace::Frame frame(workspace);
  const Index n = t.size(), k = vectors.rows;
  const auto values = workspace.take<T>(k);
  if (!smallest_eigenpairs(t, limit, scale, values, vectors, workspace)) return false;
  const auto scaled = workspace.matrix<T>(k, n);
  for (Index j = 0; j < k; ++j) {
    const double weight = f(static_cast<double>(values[static_cast<size_t>(j)]) + shift);
    kernels<T>().add_scaled(scaled.row(j), 0, vectors.row(j), std::sqrt(weight), 1, n);
  }
  blas::syrk<T>(-1, scaled, blas::Op::Transpose, 1, factor);
  return true;
}

template bool smallest_eigenpairs(const Tridiagonal<double>&, double, double, std::span<double>,
                                  MatrixView<double>, Workspace&);
template bool largest_eigenpairs(const Tridiagonal<double>&, double, double, std::span<double>,
                                 MatrixView<double>, Workspace&);
template bool split_small_end(const Tridiagonal<float>&, double, double, const Quadrature&, double,
                              MatrixView<float>, MatrixView<float>, Workspace&);
template bool split_small_end(const Tridiagonal<double>&, double, double, const Quadrature&, double,
                              MatrixView<double>, MatrixView<double>, Workspace&);

}  // namespace normball::detail
