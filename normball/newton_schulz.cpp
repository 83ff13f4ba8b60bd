#include <algorithm>
#include <cmath>
#include <utility>

#include "normball/blas.h"
#include "normball/polar_solvers.h"

namespace normball::detail {
namespace {

using blas::Op;

// The iteration acts from the short side: on x xᵀ from the left where rows <= cols, else on xᵀ x
// from the right. So nothing is transposed.
template <class T>
struct ShortSide {
  bool left;

  void gram(ConstMatrixView<T> x, MatrixView<T> a) const {
    blas::syrk<T>(1, x, left ? Op::None : Op::Transpose, 0, a);
    blas::mirror_upper(a);
  }
  void multiply(ConstMatrixView<T> s, ConstMatrixView<T> x, MatrixView<T> out) const {
    if (left) {
      blas::symm_left<T>(1, s, x, 0, out);
    } else {
      blas::symm_right<T>(1, x, s, 0, out);
    }
  }
};

// z <- a I + b r + c r² for a symmetric r, both halves.
template <class T>
void quintic_factor(const Quintic& step, ConstMatrixView<T> r, MatrixView<T> z) {
  const auto [a, b, c] = step;
  copy<T>(r, z);
  blas::syrk<T>(static_cast<T>(c), r, Op::None, static_cast<T>(b), z);
  for (Index i = 0; i < z.rows; ++i) z(i, i) += static_cast<T>(a);
  blas::mirror_upper(z);
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
    if (!std::exchange(gram_known, false)) side.gram(x, gram);
    quintic_factor<T>(step, gram, z);
    side.multiply(z, x, other);
    std::swap(x, other);
  }
}

// The same product of factors, kept apart from x: r <- z r z, f <- f z, and x <- f x at the end.
// Rounding in r is amplified, so after two steps x is formed once and r computed afresh.
template <class T>
void iterate_gram(const NewtonSchulz& solver, const ShortSide<T>& side, MatrixView<T> x,
                  MatrixView<T> q, MatrixView<T> r, MatrixView<T> z, bool gram_known,
                  Workspace& workspace) {
  const auto f = workspace.matrix<T>(r.rows, r.cols);
  const auto product = workspace.matrix<T>(r.rows, r.cols);
  bool first = true;
  for (size_t k = 0; k < solver.steps.size(); ++k) {
    if (k == 2) {
      side.multiply(f, x, q);
      copy<T>(q, x);
      gram_known = false;
      first = true;
    }
    if (first && !gram_known) side.gram(x, r);
    quintic_factor<T>(solver.steps[k], r, z);
    if (std::exchange(first, false)) {
      copy<T>(z, f);
    } else {
      blas::symm_left<T>(1, f, z, 0, product);
      copy<T>(product, f);
    }
    if (k + 1 == solver.steps.size() || k == 1) continue;  // r is not needed again
    blas::symm_left<T>(1, r, z, 0, product);
    blas::symm_left<T>(1, z, product, 0, r);
  }
  side.multiply(f, x, q);
}

}  // namespace

template <class T>
void newton_schulz_polar(const NewtonSchulz& solver, const PolarProblem<T>& p) {
  const Workspace::Frame frame(p.workspace);
  const ShortSide<T> side{p.x.rows <= p.x.cols};
  const Index k = std::min(p.x.rows, p.x.cols);
  const auto buffer = p.workspace.template matrix<T>(p.x.rows, p.x.cols);
  const auto gram = p.workspace.template matrix<T>(k, k);
  const auto z = p.workspace.template matrix<T>(k, k);
  const bool start_in_q = !solver.gram && solver.steps.size() % 2 == 0;
  const auto start = start_in_q ? p.q : buffer;

  const double frobenius = l2_norm<T>(p.x) * p.scale;
  p.scale_into(start, p.scale, 1 / (solver.safety * frobenius));
  if (solver.rescale_rows) {
    side.gram(start, gram);
    rescale(side, start, gram, p.workspace);
  }
  if (solver.gram) {
    iterate_gram(solver, side, start, p.q, gram, z, solver.rescale_rows, p.workspace);
  } else {
    iterate(solver, side, start, start_in_q ? buffer : p.q, gram, z, solver.rescale_rows);
  }
}

template void newton_schulz_polar(const NewtonSchulz&, const PolarProblem<float>&);
template void newton_schulz_polar(const NewtonSchulz&, const PolarProblem<double>&);

}  // namespace normball::detail
