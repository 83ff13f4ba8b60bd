// The damped polar factor: one level of the exact one (docs/polar.md), without what makes small
// singular values exact.
#include <limits>

#include "normball/internal/polar/exact/inverse_sqrt.h"
#include "normball/internal/polar/exact/spectrum.h"
#include "normball/internal/polar/polar_solvers.h"
#include "normball/internal/polar/short_side.h"

namespace normball::detail {

// q <- (R + delta²)^{-1/2} x with R = x xᵀ = H T Hᵀ (short side).
template <class T>
void damped_polar(const DampedPolar& solver, const PolarProblem<T>& p) {
  const Workspace::Frame frame(p.workspace);
  const auto side = ShortSide<T>::of(p.x, p.threads);
  const Index n = side.size(p.x);
  const auto x = p.with_safe_squares(p.workspace.template matrix<T>(p.x.rows, p.x.cols));
  const auto gram = square_matrix<T>(n, p.workspace), factor = square_matrix<T>(n, p.workspace);
  const auto t = Tridiagonal<T>::take(n, p.workspace);
  const Reflectors<T> h{gram, p.workspace.template take<T>(n)};
  side.gram(1, x, 0, gram);
  tridiagonalize(h, t, p.workspace, p.threads);
  const double largest = largest_eigenvalue(t);
  const double shift = solver.damping * solver.damping * largest;
  const double tolerance = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
  const Quadrature f(shift, largest + shift, tolerance);
  inverse_sqrt(t, shift, f, factor, p.workspace);
  back_transform(h, factor, centre_of(shift, largest + shift), MatrixView<T>{}, p.workspace,
                 p.threads);
  side.multiply(factor, x, 0, p.q);
}

template void damped_polar(const DampedPolar&, const PolarProblem<float>&);
template void damped_polar(const DampedPolar&, const PolarProblem<double>&);

}  // namespace normball::detail
