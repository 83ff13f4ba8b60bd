// The exact polar factor without an SVD. One level forms R = x xᵀ (short side) and replaces x by
// p(R) x, p near 1/sqrt; levels repeat until R is close to I, where a polynomial closes. The
// method, its cost and its errors are in docs/polar.md.
#include <algorithm>
#include <cmath>
#include <limits>

#include "normball/blas.h"
#include "normball/exact/closing.h"
#include "normball/exact/halley.h"
#include "normball/exact/inverse_sqrt.h"
#include "normball/exact/small_end.h"
#include "normball/exact/spectrum.h"
#include "normball/exact/tuning.h"
#include "normball/polar_solvers.h"
#include "normball/random.h"
#include "normball/short_side.h"

namespace normball::detail {
namespace {

using blas::Op;

constexpr int most_levels = 5;
constexpr int most_halley_steps = 2;
constexpr int most_deflations = 3;  // within each other
constexpr Index most_strict = 32;

// The memory and the steps of the levels for one shape.
template <class T>
class Levels {
 public:
  Levels(const ShortSide<T>& side, Index n, int depth, Workspace& workspace)
      : side_(side),
        depth_(depth),
        workspace_(workspace),
        gram_(square_matrix<T>(n, workspace)),
        factor_(square_matrix<T>(n, workspace)),
        small_(workspace.matrix<T>(most_deflated(n), n)),
        tridiagonal_(Tridiagonal<T>::take(n, workspace)),
        reflectors_{gram_, workspace.take<T>(n)} {}

  // q <- the polar factor of x; `spare` is as large as q.
  void run(ConstMatrixView<T> x, MatrixView<T> q, MatrixView<T> spare) {
    bool done = false;
    for (int level = 1; !done; ++level) {
      side_.gram(1, x, 0, gram_);
      int degree = 0;
      if (level > 1) {
        affine<T>(1, -1, gram_, gram_);  // E = I - R
        // ‖E‖_F is a bound, and mostly close: few directions have errors.
        double error = l2_norm<T>(ConstMatrixView<T>(gram_));
        if (closing_degree<T>(error) != 1) error = estimate_norm<T>(gram_, singular_, workspace_);
        if (error <= Tuning<T>::accept) break;
        degree = level == most_levels ? 1 : closing_degree<T>(error);
        if (degree == 0) affine<T>(1, -1, gram_, gram_);
      }
      Plan plan;
      if (degree > 0) {
        closing_polynomial(degree, gram_, factor_, workspace_, side_.threads);
        plan.treatment = Treatment::Clean;
        plan.final = true;
      } else {
        plan = find_factor(x, level == 1);
      }
      singular_ = singular_ || plan.singular;
      done = plan.final || plan.treatment == Treatment::Zero;
      const bool to_q = x.data != q.data && (done || x.data == spare.data);
      const MatrixView<T> next = to_q ? q : spare;
      apply(plan, x, next);
      x = next;
      if (plan.treatment == Treatment::Deflate) done = done && !singular_ && is_orthogonal(x);
    }
    if (x.data != q.data) copy<T>(x, q);
  }

 private:
  // Whether ‖I - R‖_F is small, estimated without R: the expectation of ‖(I - R) z‖ for random
  // signs.
  bool is_orthogonal(ConstMatrixView<T> x) {
    constexpr Index count = 8;
    const Workspace::Frame frame(workspace_);
    const auto z = workspace_.template matrix<T>(count, gram_.rows),
               rz = workspace_.template matrix<T>(count, gram_.rows);
    const auto zx = side_.matrix(count, x, workspace_);
    Random random(1);
    for (T& sign : std::span(z.data, static_cast<size_t>(z.rows * z.cols))) {
      sign = random.next() >> 63 ? T(1) : T(-1);
    }
    side_.transform(1, z, Op::None, x, 0, zx);
    side_.cross_gram(zx, x, rz);
    double sum = 0;
    for (Index i = 0; i < count; ++i) {
      for (Index j = 0; j < z.cols; ++j) {
        const double difference = static_cast<double>(z(i, j)) - static_cast<double>(rz(i, j));
        sum += difference * difference;
      }
    }
    return sum <= count * Tuning<T>::deviation * Tuning<T>::deviation;
  }

  // factor_ <- the p(R) that suits gram_, the Gram matrix of x, best.
  Plan find_factor(ConstMatrixView<T> x, bool first_level) {
    if (first_level && looks_flat<T>(gram_)) {
      const Plan plan = tridiagonal_factor(false, false);
      if (plan.treatment != Treatment::Shift) return plan;
      side_.gram(1, x, 0, gram_);  // many are small after all
    }
    const bool lifted = halley_steps_ >= Tuning<T>::steps_to_lift;
    if (halley_steps_ < most_halley_steps && halley_factor<T>(gram_, lifted, factor_, workspace_)) {
      ++halley_steps_;
      return {.treatment = Treatment::Clean};
    }
    return tridiagonal_factor(lifted, true);
  }

  // factor_ <- H f(T) Hᵀ for gram_ = H T Hᵀ, with f as the eigenvalues of T ask for. A shift is
  // only planned, and factor_ destroyed, unless there may be one.
  Plan tridiagonal_factor(bool lifted, bool may_shift) {
    tridiagonalize(reflectors_, tridiagonal_, workspace_, side_.threads);
    // Where the closing step costs next to nothing, or after steps that may have lifted zeros, the
    // result stays in the ball to rounding.
    const bool strict = gram_.rows <= most_strict || halley_steps_ > 0;
    const double final_ratio = strict ? Tuning<T>::strict_ratio : Tuning<T>::final_ratio;
    Plan plan = make_plan(tridiagonal_, final_ratio, depth_ < most_deflations, lifted);
    const auto is_refused = [&] { return plan.treatment == Treatment::Shift && !may_shift; };
    if (plan.treatment == Treatment::Zero || is_refused()) return plan;

    const double tolerance = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
    const Quadrature f(plan.low, plan.high, tolerance);
    inverse_sqrt(tridiagonal_, plan.shift, f, factor_, workspace_);
    if (plan.treatment == Treatment::Deflate && !split_small_end(plan, f)) {
      plan.treatment = Treatment::Shift;
      plan.deflated = 0;
      if (is_refused()) return plan;
    }
    back_transform(reflectors_, factor_, small_end(plan.deflated), workspace_, side_.threads);
    return plan;
  }

  // The eigenvectors of the k smallest eigenvalues go to small_end(k), and out of factor_.
  bool split_small_end(const Plan& plan, const Quadrature& f) {
    const Workspace::Frame frame(workspace_);
    const Index n = factor_.rows, k = plan.deflated;
    const auto values = workspace_.template take<T>(k);
    const auto vectors = small_end(k), scaled = workspace_.template matrix<T>(k, n);
    if (!smallest_eigenpairs(tridiagonal_, plan.low, plan.high, values, vectors, workspace_)) {
      // LAPACK has absolute thresholds; near 1, a power of two in x changes no digit of the result.
      const int exponent = -std::ilogb(plan.high);
      const auto copy_of_t = Tridiagonal<T>::take(n, workspace_);
      const auto scaled_copy = [&](std::span<const T> from, std::span<T> to) {
        kernels<T>().add_scaled(to.data(), 0, from.data(), std::ldexp(1, exponent), 1, n);
      };
      tridiagonal_.off_diagonal[static_cast<size_t>(n - 1)] = 0;
      scaled_copy(tridiagonal_.diagonal, copy_of_t.diagonal);
      scaled_copy(tridiagonal_.off_diagonal, copy_of_t.off_diagonal);
      if (!blas::smallest_eigenpairs(copy_of_t.diagonal, copy_of_t.off_diagonal, values, vectors,
                                     workspace_)) {
        return false;
      }
      kernels<T>().scale(values.data(), std::ldexp(1, -exponent), k);
    }
    for (Index j = 0; j < k; ++j) {
      const double weight = f(static_cast<double>(values[static_cast<size_t>(j)]));
      kernels<T>().add_scaled(scaled.row(j), 0, vectors.row(j), std::sqrt(weight), 1, n);
    }
    blas::syrk<T>(-1, scaled, Op::Transpose, 1, factor_);
    return true;
  }

  void apply(const Plan& plan, ConstMatrixView<T> x, MatrixView<T> out) {
    if (plan.treatment == Treatment::Zero) return fill(out, T(0));
    side_.multiply(factor_, x, 0, out);
    if (plan.treatment == Treatment::Deflate) add_small_end(plan.deflated, x, out);
  }

  // out += uᵀ polar(u x) for the k deflated directions u, after what leaked into u x from the rest
  // has been projected out.
  void add_small_end(Index k, ConstMatrixView<T> x, MatrixView<T> out) {
    const Workspace::Frame frame(workspace_);
    const auto u = small_end(k), leak = workspace_.template matrix<T>(k, factor_.rows);
    const auto part = side_.matrix(k, x, workspace_), polar = side_.matrix(k, x, workspace_);
    side_.transform(1, u, Op::None, x, 0, part);
    project_out(out, part, leak);
    const double max = max_abs<T>(part);
    if (max == 0) {
      singular_ = true;
      return;
    }
    const double scale = std::ldexp(1, -std::ilogb(max));
    for_each_run(part, [&](Index at, Index n) { kernels<T>().scale(part.data + at, scale, n); });
    Levels inner(side_, k, depth_ + 1, workspace_);
    inner.run(part, polar, side_.matrix(k, x, workspace_));
    singular_ = singular_ || inner.singular_;
    side_.transform(1, u, Op::Transpose, polar, 1, out);
  }

  // part <- part without its components along the directions of `out`. Where nearly all of a vector
  // was such a leak, what is left is rounding and leaks again; what does not stop shrinking is
  // zero.
  void project_out(ConstMatrixView<T> out, MatrixView<T> part, MatrixView<T> leak) {
    constexpr int most_passes = 3;
    constexpr double shrunk = 0.01;  // of a squared length
    const Workspace::Frame frame(workspace_);
    auto before = lengths(part), after = before;
    const auto has_shrunk = [&](size_t j) { return after[j] <= shrunk * before[j]; };
    for (int pass = 1; pass <= most_passes; ++pass) {
      side_.cross_gram(part, out, leak);
      side_.transform(-1, leak, Op::None, out, 1, part);
      after = lengths(part);
      bool again = false;
      for (size_t j = 0; j < after.size(); ++j) {
        if (!has_shrunk(j)) continue;
        again = true;
        if (pass == most_passes) side_.clear(static_cast<Index>(j), part);
      }
      if (!again) return;
      before = after;
    }
  }

  // The squared lengths of the short side's vectors.
  std::span<double> lengths(ConstMatrixView<T> part) {
    const auto squares = workspace_.template take<double>(side_.size(part));
    std::ranges::fill(squares, 0.0);
    for (Index i = 0; i < part.rows; ++i) {
      if (side_.left) {
        squares[static_cast<size_t>(i)] = kernels<T>().sum_squares(part.row(i), 1, part.cols);
      } else {
        kernels<T>().add_squares(squares.data(), part.row(i), 1, part.cols);
      }
    }
    return squares;
  }

  MatrixView<T> small_end(Index k) const { return small_.row_range(0, k); }

  ShortSide<T> side_;
  int depth_;
  int halley_steps_ = 0;
  Workspace& workspace_;
  bool singular_ = false;  // some directions are exactly zero and stay so
  MatrixView<T> gram_, factor_, small_;
  Tridiagonal<T> tridiagonal_;
  Reflectors<T> reflectors_;
};

}  // namespace

template <class T>
void exact_polar(const PolarProblem<T>& p) {
  const Workspace::Frame frame(p.workspace);
  const auto side = ShortSide<T>::of(p.x, p.threads);
  if (side.size(p.x) == 1) {
    const Reciprocal inverse = reciprocal(l2_norm<T>(p.x));
    return p.scale_into(p.q, inverse.a, inverse.b);
  }
  const auto spare = p.workspace.template matrix<T>(p.x.rows, p.x.cols);
  const ConstMatrixView<T> x = p.with_safe_squares(p.q);
  Levels<T>(side, side.size(x), 0, p.workspace).run(x, p.q, spare);
}

template void exact_polar(const PolarProblem<float>&);
template void exact_polar(const PolarProblem<double>&);

}  // namespace normball::detail
