// The invariant subspace of a cluster at zero by inverse iteration with all of it at once, and its
// eigenvectors from the small matrix of t on it. The eigenvalues that follow may be as close as
// they like, provided that their vectors are known: they are projected out.
#include "normball/internal/polar/exact/small_cluster.h"

#include <algorithm>
#include <cmath>

#include "normball/internal/kernels/blas.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/internal/polar/exact/small_end.h"
#include "normball/internal/polar/exact/tuning.h"
#include "normball/random.h"

namespace normball::detail {
namespace {

using blas::Op;

// t / scale + shift = L D Lᵀ, positive definite.
struct ShiftedFactors {
  std::span<double> inverse_pivots, ratios;

  ShiftedFactors(const Tridiagonal<double>& t, double scale, double shift, Workspace& workspace)
      : inverse_pivots(workspace.take<double>(t.size())), ratios(workspace.take<double>(t.size())) {
    double off = 0, inverse = 0;
    for (size_t i = 0; i < inverse_pivots.size(); ++i) {
      const double pivot = t.diagonal[i] / scale + shift - off * off * inverse;
      inverse = inverse_pivots[i] = 1 / std::max(shift / 4, pivot);
      off = i + 1 < ratios.size() ? t.off_diagonal[i] / scale : 0;
      ratios[i] = off * inverse;
    }
  }

  // The columns of z.
  void solve(MatrixView<double> z) const {
    for (Index i = 1; i < z.rows; ++i) add(z, i, i - 1, ratios[static_cast<size_t>(i - 1)]);
    for (Index i = z.rows - 1; i >= 0; --i) {
      double* row = z.row(i);
      for (Index j = 0; j < z.cols; ++j) row[j] *= inverse_pivots[static_cast<size_t>(i)];
      if (i + 1 < z.rows) add(z, i, i + 1, ratios[static_cast<size_t>(i)]);
    }
  }

 private:
  static void add(MatrixView<double> z, Index to, Index from, double ratio) {
    double* row = z.row(to);
    const double* other = z.row(from);
    for (Index j = 0; j < z.cols; ++j) row[j] -= ratio * other[j];
  }
};

// z <- t z / scale
void multiply(const Tridiagonal<double>& t, double scale, ConstMatrixView<double> z,
              MatrixView<double> out) {
  const auto& kernel = kernels<double>();
  for (Index i = 0; i < z.rows; ++i) {
    const auto at = static_cast<size_t>(i);
    kernel.add_scaled(out.row(i), 0, z.row(i), t.diagonal[at] / scale, 1, z.cols);
    if (i > 0) {
      kernel.add_scaled(out.row(i), 1, z.row(i - 1), t.off_diagonal[at - 1] / scale, 1, z.cols);
    }
    if (i + 1 < z.rows) {
      kernel.add_scaled(out.row(i), 1, z.row(i + 1), t.off_diagonal[at] / scale, 1, z.cols);
    }
  }
}

// Orthonormal columns that are orthogonal to `others`, up to the accuracy of those.
bool orthonormalize(ConstMatrixView<double> others, MatrixView<double> z, Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const auto part = workspace.matrix<double>(others.rows, z.cols);
  const auto products = workspace.matrix<double>(z.cols, z.cols);
  for (int pass = 0; pass < 2; ++pass) {
    if (others.rows > 0) {
      blas::gemm<double>(1, others, Op::None, z, Op::None, 0, part);
      blas::gemm<double>(-1, others, Op::Transpose, part, Op::None, 1, z);
    }
    blas::syrk<double>(1, z, Op::Transpose, 0, products);
    if (!blas::cholesky(products)) return false;
    blas::solve_triangular_right<double>(products, z);
  }
  return true;
}

}  // namespace

bool small_cluster(const Tridiagonal<double>& t, double bound, double limit, double scale,
                   ConstMatrixView<double> others, std::span<double> values,
                   MatrixView<double> vectors, Workspace& workspace) {
  constexpr double least_separation = 5, leak = 1e-12;
  constexpr int between = 3;  // steps from one orthonormalization to the next
  const Index n = t.size(), count = vectors.rows;
  const double shift = std::max(bound / scale, 32 * Tuning<double>::noise);
  if (limit / scale < least_separation * shift) return false;
  const Workspace::Frame frame(workspace);
  const ShiftedFactors factors(t, scale, shift, workspace);
  const auto z = workspace.matrix<double>(n, count), tz = workspace.matrix<double>(n, count);
  Random random(1);
  for (double& entry : std::span(z.data, static_cast<size_t>(z.size()))) {
    entry = random.uniform() - 0.5;
  }
  // Every step damps the eigenvalues above `limit` by this against those of the cluster.
  const double damping = (limit / scale + shift) / (2 * shift);
  const int steps = 2 + static_cast<int>(std::ceil(-std::log(leak) / std::log(damping)));
  for (int step = 1; step <= steps; ++step) {
    factors.solve(z);
    // At once, because random columns may be nearly dependent.
    const bool due = step == 1 || step % between == 0 || step == steps;
    if (due && !orthonormalize(others, z, workspace)) return false;
  }
  multiply(t, scale, z, tz);
  const auto inner = workspace.matrix<double>(count, count);
  blas::gemm<double>(1, z, Op::Transpose, tz, Op::None, 0, inner);
  const double norm = l2_norm<double>(tz);
  if (!(norm <= 2 * shift * std::sqrt(static_cast<double>(count)))) return false;
  const auto small = Tridiagonal<double>::take(count, workspace);
  const Reflectors<double> h{inner, workspace.take<double>(count)};
  const auto w = workspace.matrix<double>(count, count);
  tridiagonalize(h, small, workspace, 1);
  const double size = std::max(norm, 1e-300);
  if (!largest_eigenpairs(small, -2 * size, 2 * size, values, w, workspace)) return false;
  back_transform(h, {}, 0, w, workspace, 1);
  blas::gemm<double>(1, w, Op::None, z, Op::Transpose, 0, vectors);
  std::ranges::reverse(values);
  for (double& value : values) value *= scale;
  for (Index i = 0; i < count / 2; ++i) {
    std::swap_ranges(vectors.row(i), vectors.row(i) + n, vectors.row(count - 1 - i));
  }
  return true;
}

}  // namespace normball::detail
