// R = x xᵀ in double has singular values down to 1e-8 of the largest, far below float's rounding:
// it decides what counts as zero and needs no second level. A Cholesky factorization with pivots,
// R = Cᵀ C, is as thin as the rank, and names rows s of x that span the others: with
// x_s = Lᵀ z, z orthonormal, x = Cᵀ z. So the polar factor is (Cᵀ (C Cᵀ)^{-1/2}) z, a product of
// two orthonormal matrices, for which float is enough again.
#include "normball/internal/polar/exact/through_double.h"

#include <algorithm>
#include <cmath>

#include "normball/base/parallel.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/internal/polar/exact/forecast.h"
#include "normball/internal/polar/exact/graded.h"
#include "normball/internal/polar/exact/pivoted_cholesky.h"
#include "normball/internal/polar/exact/small_end.h"
#include "normball/internal/polar/exact/spectrum.h"
#include "normball/internal/polar/exact/tuning.h"
#include "normball/internal/polar/exact/widened.h"
#include "normball/internal/polar/panels.h"

namespace normball::detail {
namespace {

using blas::Op;
constexpr double noise = Tuning<double>::noise;
constexpr Index most_vectors = 128;  // up to there all eigenvectors are cheap

// Between a third of the largest eigenvalue and itself, mostly close: Σλ² / Σλ.
double largest_from_below(ConstMatrixView<double> r) {
  double trace = 0, squares = 0;
  for (Index i = 0; i < r.rows; ++i) {
    trace += r(i, i);
    squares += 2 * kernels<double>().sum_squares(r.row(i) + i, 1, r.cols - i) - r(i, i) * r(i, i);
  }
  return squares / trace;
}

// c <- the first rows of the factor u, with its columns back in their own order.
void unpivot(ConstMatrixView<double> u, std::span<const Index> order, MatrixView<double> c) {
  fill(c, 0.0);
  for (Index i = 0; i < c.rows; ++i) {
    for (Index j = i; j < c.cols; ++j) c(i, order[static_cast<size_t>(j)]) = u(i, j);
  }
}

// z <- the rows (columns) of x in `order`.
void gather(const ShortSide<float>& side, ConstMatrixView<float> x, std::span<const Index> order,
            MatrixView<double> z) {
  if (side.left) {
    for (Index i = 0; i < z.rows; ++i) {
      convert(x.row_range(order[static_cast<size_t>(i)], order[static_cast<size_t>(i)] + 1),
              z.row_range(i, i + 1));
    }
    return;
  }
  for (Index i = 0; i < z.rows; ++i) {
    for (Index j = 0; j < z.cols; ++j) {
      z(i, j) = static_cast<double>(x(i, order[static_cast<size_t>(j)]));
    }
  }
}

// out <- u⁻ᵀ times the rows of x in `order`  (the columns times u⁻¹), piece by piece.
void orthonormal_basis(const ShortSide<float>& side, ConstMatrixView<double> u,
                       ConstMatrixView<float> x, std::span<const Index> order,
                       MatrixView<float> out, Workspace& workspace) {
  constexpr Index chunk = 128;
  const Workspace::Frame frame(workspace);
  const Index length = side.length(x), count = panel_count(length, chunk), rank = u.rows;
  const auto buffers = workspace.matrix<double>(count, chunk * rank);
  parallel_for(count, worth_threads(rank, rank, length, side.threads), [&](Index p, int) {
    const Range all = panel(length, count, p);
    for (Index begin = all.begin; begin < all.end(); begin += chunk) {
      const Index size = std::min(chunk, all.end() - begin);
      const auto to = side.stretch(out, begin, size);
      const MatrixView<double> piece(buffers.row(p), to.rows, to.cols);
      gather(side, side.stretch(x, begin, size), order, piece);
      if (side.left) {
        blas::solve_triangular_left<double>(u, piece);
      } else {
        blas::solve_triangular_right<double>(u, piece);
      }
      convert(piece, to);
    }
  });
}

// The tridiagonal form of a Gram matrix, and how many of its eigenvalues are above cut² λmax, a
// number above the noise.
struct Reduced : GradedGram {
  Reduced(MatrixView<double> g, double cut, Workspace& workspace, int threads)
      : GradedGram{.h = {g, workspace.take<double>(g.rows)},
                   .t = Tridiagonal<double>::take(g.rows, workspace)} {
    tridiagonalize(h, t, workspace, threads);
    high = largest_eigenvalue(t, 1e-9);
    low = cut * cut * high;
    kept = g.rows - count_below(t, low);
  }

  // factor <- G^{-1/2} on the eigenvectors kept, 0 on the others.
  bool inverse_sqrt(MatrixView<double> factor, Workspace& workspace, int threads) const {
    const Workspace::Frame frame(workspace);
    if (kept < t.size() && t.size() <= most_vectors) {
      return inverse_sqrt_by_vectors(factor, workspace, threads);
    }
    const auto dropped = workspace.matrix<double>(t.size() - kept, t.size());
    // Rounding can make what is dropped negative, and f must be finite there.
    const double shift = dropped.rows > 0 ? 4 * noise * high : 0;
    const Quadrature f(low + shift, high + shift, 1e-8);
    detail::inverse_sqrt(t, shift, f, factor, workspace);
    if (!split_small_end(t, low, high, f, shift, factor, dropped, workspace)) return false;
    back_transform(h, factor, centre_of(low, high), {}, workspace, threads);
    return true;
  }

  // The same where the cut is so small that what is dropped may be rounding of G, which f would
  // make large before it is taken out again.
  bool inverse_sqrt_by_vectors(MatrixView<double> factor, Workspace& workspace, int threads) const {
    const auto values = workspace.take<double>(kept);
    const auto w = workspace.matrix<double>(kept, t.size());
    if (!largest_eigenpairs(t, low, high, values, w, workspace)) return false;
    for (Index i = 0; i < kept; ++i) {
      const double weight = std::pow(values[static_cast<size_t>(i)], -0.25);
      kernels<double>().scale(w.row(i), weight, t.size());
    }
    blas::syrk<double>(1, w, Op::Transpose, 0, factor);
    back_transform(h, factor, centre_of(low, high), {}, workspace, threads);
    return true;
  }
};

// q <- R^{-1/2} x
bool apply_inverse_sqrt(const ShortSide<float>& side, const Reduced& reduced,
                        ConstMatrixView<float> x, MatrixView<float> q, MatrixView<float> spare,
                        Workspace& workspace) {
  const Graded graded = graded_polar(side, reduced, x, q, spare, workspace);
  if (graded != Graded::TooManyEnds) return graded == Graded::Done;
  const Index n = reduced.t.size();
  const auto factor = square_matrix<double>(n, workspace);
  if (!reduced.inverse_sqrt(factor, workspace, side.threads)) return false;
  multiply_in_double(side, ConstMatrixView<double>(factor), x, q, workspace);
  return true;
}

// The front of the memory of `whole`.
template <class T>
MatrixView<T> front(MatrixView<T> whole, Index rows, Index cols) {
  return {whole.data, rows, cols};
}

// R = Cᵀ C up to what counts as zero, x = Cᵀ z with orthonormal z: q <- (Cᵀ (C Cᵀ)^{-1/2}) z.
// `scratch` is as large as c.
bool multiply_thin(const ShortSide<float>& side, ConstMatrixView<double> c, const Reduced& reduced,
                   ConstMatrixView<float> z, MatrixView<double> scratch, MatrixView<float> q,
                   Workspace& workspace) {
  const Index rank = c.rows, n = c.cols, kept = reduced.kept;
  const bool few = 2 * kept <= rank;
  const auto b = front(scratch, few ? kept : rank, n);
  if (!few) {
    {
      const Workspace::Frame frame(workspace);
      const auto factor = square_matrix<double>(rank, workspace);
      if (!reduced.inverse_sqrt(factor, workspace, side.threads)) return false;
      ShortSide<double>{true, side.threads}.multiply(factor, c, 0, b);
    }
    const auto narrow_b = workspace.matrix<float>(b.rows, n);
    convert(b, narrow_b);
    side.transform(1, narrow_b, Op::Transpose, z, 0, q);
    return true;
  }
  // With few eigenvectors w kept: q <- (Λ^{-1/2} w C)ᵀ (w z).
  const auto values = workspace.take<double>(kept);
  const auto w = workspace.matrix<double>(kept, rank);
  if (!largest_eigenpairs(reduced.t, reduced.low, reduced.high, values, w, workspace)) return false;
  const auto narrow_w = workspace.matrix<float>(kept, rank);
  const auto narrow_b = workspace.matrix<float>(kept, n);
  back_transform(reduced.h, {}, 0, w, workspace, side.threads);
  convert(w, narrow_w);
  for (Index i = 0; i < kept; ++i) {
    kernels<double>().scale(w.row(i), 1 / std::sqrt(values[static_cast<size_t>(i)]), rank);
  }
  ShortSide<double>{true, side.threads}.transform(1, w, Op::None, c, 0, b);
  convert(b, narrow_b);
  const auto wz =
      side.left ? workspace.matrix<float>(kept, z.cols) : workspace.matrix<float>(z.rows, kept);
  side.transform(1, narrow_w, Op::None, z, 0, wz);
  side.transform(1, narrow_b, Op::Transpose, wz, 0, q);
  return true;
}

}  // namespace

// Nine square matrices where most directions are dropped in a cluster, or five and the products of
// up to a quarter of the directions with x, in both precisions; and the buffers of the pieces.
std::size_t through_double_bytes(Index n, Index length) {
  const Index padded = n + 16, square = n * padded;
  const Index doubles =
      std::max(9 * square, 5 * square + square / 2 + 3 * n * length / 8) + 1400 * n + 8192;
  return static_cast<std::size_t>(doubles) * sizeof(double);
}

bool polar_through_double(const ShortSide<float>& side, ConstMatrixView<float> x, double cut,
                          MatrixView<float> q, MatrixView<float> spare, Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const Index n = side.size(x);
  const auto gram = square_matrix<double>(n, workspace);
  gram_in_double(side, x, gram, workspace);
  const double largest = largest_from_below(gram);
  // What is left out of x has a norm of a small part of the cut: its directions stay in those kept.
  const double level = cut * cut * largest, share = n <= most_vectors ? 1e-5 : 5e-4;
  const auto nearly_full = [&] {
    const Workspace::Frame inner(workspace);
    return looks_full<double>(gram, share * level, level, square_matrix<double>(n, workspace));
  };
  if (!nearly_full()) {
    const Workspace::Frame inner(workspace);
    const auto u = square_matrix<double>(n, workspace), rest = square_matrix<double>(n, workspace);
    blas::mirror_upper(gram);
    copy<double>(gram, rest);
    const auto order = workspace.take<Index>(n);
    const Index rank =
        pivoted_cholesky(rest, share * level, noise * largest, order, u, workspace, side.threads);
    Index large = 0;
    for (Index i = 0; i < rank; ++i) large += u(i, i) * u(i, i) > level ? 1 : 0;
    if (10 * rank <= 8 * n || 10 * large <= 6 * n) {
      const auto z = side.left ? front(spare, rank, x.cols) : front(spare, x.rows, rank);
      orthonormal_basis(side, u.block(0, 0, rank, rank), x, order, z, workspace);
      // The memory of `rest`, of R and of u serves again.
      const auto c = front(rest, rank, n);
      const MatrixView<double> g(gram.data, rank, rank, gram.stride);
      unpivot(u, order, c);
      ShortSide<double>{true, side.threads}.gram(1, c, 0, g);
      return multiply_thin(side, c, Reduced(g, cut, workspace, side.threads), z, u, q, workspace);
    }
  }
  return apply_inverse_sqrt(side, Reduced(gram, cut, workspace, side.threads), x, q, spare,
                            workspace);
}

}  // namespace normball::detail
