#include <algorithm>

#include "normball/internal/kernels/blas.h"
#include "normball/internal/polar/polar_solvers.h"
#include "normball/random.h"

namespace normball::detail {
namespace {

template <class T>
void random_start(MatrixView<T> basis) {
  Random random(static_cast<std::uint64_t>(basis.size()));
  for (Index i = 0; i < basis.size(); ++i) basis.data[i] = static_cast<T>(random.normal());
}

}  // namespace

// With b the basis of the last call (rank rows on the long side of x; here x is wide):
//   p <- orthonormal rows of b xᵀ,  b <- polar(p x),  q <- pᵀ b.
// Dion (Ahn et al. 2025) normalizes the rows of p x one by one instead of taking their polar
// factor; the polar factor keeps q in the unit ball.
template <class T>
void power_iteration_polar(const PowerIteration& solver, const PolarProblem<T>& p) {
  using blas::Op;
  const Workspace::Frame frame(p.workspace);
  const bool wide = p.x.rows <= p.x.cols;
  const Index small = std::min(p.x.rows, p.x.cols), large = std::max(p.x.rows, p.x.cols);
  const Index rank = std::min(solver.rank, small);
  const Op forward = wide ? Op::None : Op::Transpose;
  const Op backward = wide ? Op::Transpose : Op::None;

  auto basis = p.workspace.template matrix<T>(rank, large);
  if (p.state != nullptr) basis.data = p.state;
  if (p.state == nullptr || max_abs<T>(basis) == 0) random_start(basis);
  const auto x = p.workspace.template matrix<T>(p.x.rows, p.x.cols);
  p.scale_into(x, p.scale);

  const auto left = p.workspace.template matrix<T>(rank, small);
  const auto projected = p.workspace.template matrix<T>(rank, large);
  blas::gemm<T>(1, basis, Op::None, x, backward, 0, left);
  blas::orthonormalize_rows(left, p.workspace);
  blas::gemm<T>(1, left, Op::None, x, forward, 0, projected);
  polar<T>(ExactPolar{}, projected, basis, p.workspace);
  if (wide) {
    blas::gemm<T>(1, left, Op::Transpose, basis, Op::None, 0, p.q);
  } else {
    blas::gemm<T>(1, basis, Op::Transpose, left, Op::None, 0, p.q);
  }
}

template void power_iteration_polar(const PowerIteration&, const PolarProblem<float>&);
template void power_iteration_polar(const PowerIteration&, const PolarProblem<double>&);

}  // namespace normball::detail
