// Singular values cut at tau: q <- f(R) x with R = x xᵀ (short side) and f(λ) = min(1/τ, 1/√λ),
// which is at most 1/τ, so that small singular values need no care. An error e of R moves f(R) x by
// e/2τ² at most; R is in double for float data too, and beyond a ratio σ_max/τ of 1000 a singular
// value decomposition takes over. docs/polar.md has the bounds, and what was measured.
#include <algorithm>
#include <cmath>
#include <limits>

#include "normball/internal/kernels/blas.h"
#include "normball/internal/polar/exact/tridiagonal.h"
#include "normball/internal/polar/exact/widened.h"
#include "normball/internal/polar/polar_solvers.h"
#include "normball/internal/polar/short_side.h"
#include "normball/internal/polar/svd_in_double.h"

namespace normball::detail {
namespace {

using blas::Op;

constexpr double most_ratio = 1000;  // of σ_max/τ: the error is then 1e-10 times a small number

void gram(const ShortSide<float>& side, ConstMatrixView<float> x, MatrixView<double> r,
          Workspace& workspace) {
  gram_in_double(side, x, r, workspace);
}
void gram(const ShortSide<double>& side, ConstMatrixView<double> x, MatrixView<double> r,
          Workspace&) {
  side.gram(1, x, 0, r);
}

void multiply(const ShortSide<float>& side, ConstMatrixView<double> s, ConstMatrixView<float> x,
              MatrixView<float> q, Workspace& workspace) {
  multiply_in_double(side, s, x, q, workspace);
}
void multiply(const ShortSide<double>& side, ConstMatrixView<double> s, ConstMatrixView<double> x,
              MatrixView<double> q, Workspace&) {
  side.multiply(s, x, 0, q);
}

// All eigenvalues of t, ascending, and their eigenvectors as rows.
bool all_eigenpairs(const Tridiagonal<double>& t, std::span<double> values,
                    MatrixView<double> vectors, Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const auto copy_of_t = Tridiagonal<double>::take(t.size(), workspace);
  const auto restart = [&] {
    std::ranges::copy(t.diagonal, copy_of_t.diagonal.begin());
    std::ranges::copy(t.off_diagonal, copy_of_t.off_diagonal.begin());
  };
  restart();
  if (blas::smallest_eigenpairs<double>(copy_of_t.diagonal, copy_of_t.off_diagonal, values, vectors,
                                        workspace)) {
    return true;
  }
  restart();
  if (!blas::eigenpairs<double>(copy_of_t.diagonal, copy_of_t.off_diagonal, vectors, workspace)) {
    return false;
  }
  std::ranges::copy(copy_of_t.diagonal, values.begin());
  return true;
}

// z <- diag(√f(values)) z, so that f(R) = zᵀ z.
void scale_rows(std::span<const double> values, double tau, MatrixView<double> z) {
  for (Index i = 0; i < z.rows; ++i) {
    const double sigma = std::sqrt(std::max(0.0, values[static_cast<size_t>(i)]));
    kernels<double>().scale(z.row(i), 1 / std::sqrt(std::max(tau, sigma)), z.cols);
  }
}

// By R; false where σ_max/τ is too large for it, or LAPACK fails. x has safe squares.
template <class T>
bool clip_by_gram(const ClippedPolar& solver, ConstMatrixView<T> x, double tau, MatrixView<T> q,
                  Workspace& workspace, int threads) {
  const auto side = ShortSide<T>::of(x, threads);
  const Index n = side.size(x);
  const Reflectors<double> h{square_matrix<double>(n, workspace), workspace.take<double>(n)};
  const auto t = Tridiagonal<double>::take(n, workspace);
  const auto values = workspace.take<double>(n);
  const auto z = workspace.matrix<double>(n, n);
  gram(side, x, h.vectors, workspace);
  tridiagonalize(h, t, workspace, threads);
  if (!all_eigenpairs(t, values, z, workspace)) return false;
  const double largest = std::sqrt(std::max(0.0, values.back()));
  if (solver.tau == 0) tau = solver.share * largest;
  if (largest > most_ratio * tau) return false;
  back_transform(h, MatrixView<double>{}, 0, z, workspace, threads);
  scale_rows(values, tau, z);
  const auto f = h.vectors;
  ShortSide<double>{false, threads}.gram(1, z, 0, f);
  multiply(side, f, x, q, workspace);
  return true;
}

template <class T>
void clip_by_svd(const ClippedPolar& solver, const PolarProblem<T>& p) {
  const auto [x, u, sigma, vt] = decompose_in_double(p);
  const double tau = solver.tau == 0 ? solver.share * sigma[0] : solver.tau * p.scale;
  for (Index i = 0; i < vt.rows; ++i) {
    const double value = sigma[static_cast<size_t>(i)];
    kernels<double>().scale(vt.row(i), value < tau ? value / tau : 1, vt.cols);
  }
  blas::gemm<double>(1, u, Op::None, vt, Op::None, 0, x);
  convert(x, p.q);
}

}  // namespace

template <class T>
void clipped_polar(const ClippedPolar& solver, const PolarProblem<T>& p) {
  const Workspace::Frame frame(p.workspace);
  const double length = l2_norm<T>(p.x);          // σ_max is at most this
  if (solver.tau != 0 && length <= solver.tau) {  // nothing to cut
    const Reciprocal inverse = reciprocal(solver.tau);
    return p.scale_into(p.q, inverse.a, inverse.b);
  }
  constexpr auto rounding = std::numeric_limits<double>::epsilon();
  if (solver.tau != 0 && solver.tau <= rounding * length) return exact_polar(p);
  {
    const Workspace::Frame inner(p.workspace);
    const auto x = p.with_safe_squares(p.workspace.template matrix<T>(p.x.rows, p.x.cols));
    const double tau = x.data == p.x.data ? solver.tau : solver.tau * p.scale;
    if (clip_by_gram(solver, x, tau, p.q, p.workspace, p.threads)) return;
  }
  clip_by_svd(solver, p);
}

template void clipped_polar(const ClippedPolar&, const PolarProblem<float>&);
template void clipped_polar(const ClippedPolar&, const PolarProblem<double>&);

}  // namespace normball::detail
