#include <algorithm>
#include <cmath>
#include <utility>

#include "normball/internal/kernels/blas.h"
#include "normball/internal/polar/polar_solvers.h"
#include "normball/internal/polar/short_side.h"

namespace normball::detail {
namespace {

// z <- a I + b r + c r² for a symmetric r. Upper triangles; r has both halves.
template <class T>
void quintic_factor(const Quintic& step, ConstMatrixView<T> r, MatrixView<T> z, int threads) {
  const auto [a, b, c] = step;
  for (Index i = 0; i < r.rows; ++i) std::copy_n(r.row(i) + i, r.cols - i, z.row(i) + i);
  ShortSide<T>{true, threads}.gram(static_cast<T>(c), r, static_cast<T>(b), z);
  for (Index i = 0; i < z.rows; ++i) z(i, i) += static_cast<T>(a);
}

// Both halves, as quintic_factor() reads it.
template <class T>
void full_gram(const ShortSide<T>& side, ConstMatrixView<T> x, MatrixView<T> r) {
  side.gram(1, x, 0, r);
  blas::mirror_upper(r);
}

// Divides each row (column on the right side) of x by the root of its Gram row sum, after which
// ‖x‖₂ <= 1 without any further normalization (Prach and Lampert 2022).
template <class T>
void rescale(const ShortSide<T>& side, MatrixView<T> x, MatrixView<T> gram, Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const auto factor = workspace.take<T>(gram.rows);
  for (Index i = 0; i < gram.rows; ++i) {
    const double sum = kernels<T>().sum_abs(gram.row(i), gram.cols);
    factor[static_cast<size_t>(i)] = sum > 0 ? static_cast<T>(1 / std::sqrt(sum)) : T(0);
  }
  for (Index i = 0; i < x.rows; ++i) {
    for (Index j = 0; j < x.cols; ++j) x(i, j) *= factor[static_cast<size_t>(side.left ? i : j)];
  }
  for (Index i = 0; i < gram.rows; ++i) {
    for (Index j = 0; j < gram.cols; ++j) {
      gram(i, j) *= factor[static_cast<size_t>(i)] * factor[static_cast<size_t>(j)];
    }
  }
}

// x_k <- z x_{k-1}, from one buffer to the other; the last one is q.
template <class T>
void iterate(const NewtonSchulz& solver, const ShortSide<T>& side, MatrixView<T> x,
             MatrixView<T> other, MatrixView<T> gram, MatrixView<T> z, bool gram_known) {
  for (const auto& step : solver.steps) {
    if (!std::exchange(gram_known, false)) full_gram<T>(side, x, gram);
    quintic_factor<T>(step, gram, z, side.threads);
    side.multiply(z, x, 0, other);
    std::swap(x, other);
  }
}

// The same product of factors, kept apart from x: r <- z r z, f <- z f, and x <- f x at the end.
// Rounding in r is amplified, so after two steps x is formed once and r computed afresh. All these
// matrices are polynomials in the first r: they are symmetric and commute.
template <class T>
void iterate_gram(const NewtonSchulz& solver, const ShortSide<T>& side, MatrixView<T> x,
                  MatrixView<T> other, MatrixView<T> r, bool gram_known, Workspace& workspace) {
  const ShortSide<T> square{true, side.threads};
  const auto n = r.rows;
  auto z = workspace.matrix<T>(n, n), f = workspace.matrix<T>(n, n);
  auto product = workspace.matrix<T>(n, n);
  const size_t steps = solver.steps.size();
  const auto form_x = [&] {
    side.multiply(f, x, 0, other);
    std::swap(x, other);
  };
  for (size_t k = 0; k < steps; ++k) {
    const bool fresh = k == 0 || k == 2;
    if (k == 2) form_x();
    if (fresh && !(k == 0 && gram_known)) full_gram<T>(side, x, r);
    quintic_factor<T>(solver.steps[k], r, z, side.threads);
    if (fresh) {
      blas::mirror_upper(z);
      std::swap(z, f);
    } else {
      square.multiply(z, f, 0, product);
      std::swap(product, f);
    }
    if (k + 1 == steps || k == 1) continue;  // r is not needed again
    const auto last = fresh ? f : z;
    square.multiply(last, r, 0, product);
    square.multiply(last, product, 0, r);
  }
  form_x();
}

}  // namespace

template <class T>
void newton_schulz_polar(const NewtonSchulz& solver, const PolarProblem<T>& p) {
  const Workspace::Frame frame(p.workspace);
  const auto side = ShortSide<T>::of(p.x, p.threads);
  const Index k = side.size(p.x);
  const auto buffer = p.workspace.template matrix<T>(p.x.rows, p.x.cols);
  const auto gram = p.workspace.template matrix<T>(k, k);
  // x moves between two buffers, once a step (twice at most in Gram form); it must end in q.
  const size_t moves = solver.gram ? (solver.steps.size() > 2 ? 2 : 1) : solver.steps.size();
  const auto start = moves % 2 == 0 ? p.q : buffer, other = moves % 2 == 0 ? buffer : p.q;

  const double frobenius = l2_norm<T>(p.x) * p.scale;
  p.scale_into(start, p.scale, 1 / (solver.safety * frobenius));
  if (solver.rescale_rows) {
    full_gram<T>(side, start, gram);
    rescale(side, start, gram, p.workspace);
  }
  if (solver.gram) {
    iterate_gram(solver, side, start, other, gram, solver.rescale_rows, p.workspace);
  } else {
    const auto z = p.workspace.template matrix<T>(k, k);
    iterate(solver, side, start, other, gram, z, solver.rescale_rows);
  }
}

template void newton_schulz_polar(const NewtonSchulz&, const PolarProblem<float>&);
template void newton_schulz_polar(const NewtonSchulz&, const PolarProblem<double>&);

}  // namespace normball::detail
