// The exact polar factor without an SVD. One level forms R = x xᵀ (short side) and replaces x by
// p(R) x, p near 1/sqrt; few small directions are solved apart, at their own scale, and a
// polynomial closes where that is not exact enough. The method, its cost and its errors are in
// docs/polar.md.
#include <algorithm>
#include <cmath>
#include <limits>

#include "normball/internal/kernels/blas.h"
#include "normball/internal/polar/exact/closing.h"
#include "normball/internal/polar/exact/forecast.h"
#include "normball/internal/polar/exact/inverse_sqrt.h"
#include "normball/internal/polar/exact/occupied.h"
#include "normball/internal/polar/exact/small_end.h"
#include "normball/internal/polar/exact/spectrum.h"
#include "normball/internal/polar/exact/through_double.h"
#include "normball/internal/polar/exact/tuning.h"
#include "normball/internal/polar/exact/widened.h"
#include "normball/internal/polar/polar_solvers.h"
#include "normball/internal/polar/short_side.h"
#include "normball/random.h"

namespace normball::detail {
namespace {

using blas::Op;

constexpr int most_levels = 5;
constexpr Index most_strict = 32;
constexpr double isometry_cut = 0.1;  // after one level singular values are near 1, or zero

// The memory and the steps of the levels for one shape.
template <class T>
class Levels {
 public:
  Levels(const ShortSide<T>& side, ConstMatrixView<T> x, Workspace& workspace)
      : Levels(side, side.size(x), workspace) {
    workspace.expect(small_end_bytes(side.size(x), side.length(x)));
  }
  Levels(const ShortSide<T>& side, Index n, Workspace& workspace)
      : side_(side),
        workspace_(workspace),
        gram_(square_matrix<T>(n, workspace)),
        factor_(square_matrix<T>(n, workspace)),
        small_(workspace.matrix<T>(most_deflated<T>(n), n)),
        tridiagonal_(Tridiagonal<T>::take(n, workspace)),
        reflectors_{gram_, workspace.take<T>(n)} {}

  // q <- the polar factor of x over its singular values above `cut`, or above `cut` times the
  // largest one. `spare` is as large as q. False where too many singular values are small for T, or
  // LAPACK fails.
  bool run(ConstMatrixView<T> x, double cut, bool relative, MatrixView<T> q, MatrixView<T> spare) {
    cut_ = cut;
    relative_ = relative;
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
      Plan plan{.treatment = Treatment::Clean, .final = true};
      if (degree > 0) {
        closing_polynomial(degree, gram_, factor_, workspace_, side_.threads);
      } else {
        plan = find_factor(level == 1);
      }
      if (plan.treatment == Treatment::Refuse) return false;
      done = plan.final || plan.treatment == Treatment::Zero;
      const bool to_q = x.data != q.data && (done || x.data == spare.data);
      const MatrixView<T> next = to_q ? q : spare;
      if (!apply(plan, x, next)) return false;
      x = next;
      if (plan.treatment == Treatment::Deflate) done = done && is_isometry(x);
    }
    if (x.data != q.data) copy<T>(x, q);
    return true;
  }

  bool singular() const { return singular_; }

 private:
  // Whether ‖R (I - R)‖_F is small, estimated without R: the expectation of ‖R (I - R) z‖ for
  // random signs. ‖I - R‖_F where no direction is zero.
  bool is_isometry(ConstMatrixView<T> x) {
    constexpr Index count = 8;
    const Workspace::Frame frame(workspace_);
    const auto z = workspace_.template matrix<T>(count, gram_.rows),
               rz = workspace_.template matrix<T>(count, gram_.rows);
    const auto zx = side_.matrix(count, x, workspace_);
    Random random(1);
    for (T& sign : std::span(z.data, static_cast<size_t>(z.size()))) {
      sign = random.next() >> 63 ? T(1) : T(-1);
    }
    const auto multiply = [&](MatrixView<T> from, MatrixView<T> to) {
      side_.transform(1, from, Op::None, x, 0, zx);
      side_.cross_gram(zx, x, 0, to);
    };
    multiply(z, rz);
    kernels<T>().add_scaled(z.data, 1, rz.data, -1, 1, z.size());
    if (singular_) {
      multiply(z, rz);
      copy<T>(rz, z);
    }
    const double sum = kernels<T>().sum_squares(z.data, 1, z.size());
    return sum <= count * Tuning<T>::deviation * Tuning<T>::deviation;
  }

  // factor_ <- the p(R) that suits gram_ best.
  Plan find_factor(bool first_level) {
    constexpr bool can_refuse = std::is_same_v<T, float>;
    if (can_refuse && first_level && !looks_flat<T>(gram_) &&
        !looks_regular<T>(gram_, Tuning<T>::clean_ratio(gram_.rows), factor_)) {
      return {.treatment = Treatment::Refuse};
    }
    tridiagonalize(reflectors_, tridiagonal_, workspace_, side_.threads);
    if (!first_level) {
      cut_ = isometry_cut;
    } else if (relative_) {
      cut_ *= std::sqrt(largest_eigenvalue(tridiagonal_, 1e-3));
    }
    // Where the closing step costs next to nothing the result is exact to rounding.
    const bool strict = gram_.rows <= most_strict;
    Plan plan =
        make_plan(tridiagonal_, strict ? Tuning<T>::strict_ratio : Tuning<T>::final_ratio, cut_);
    if (plan.treatment == Treatment::Zero || plan.treatment == Treatment::Refuse) return plan;
    const double tolerance = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
    const Quadrature f(plan.low, plan.high, tolerance);
    inverse_sqrt(tridiagonal_, 0, f, factor_, workspace_);
    const auto small = small_.row_range(0, plan.removed);
    if (!split_small_end(tridiagonal_, plan.low, plan.high, f, 0, factor_, small, workspace_)) {
      return {.treatment = Treatment::Refuse};
    }
    back_transform(reflectors_, factor_, centre_of(plan.low, plan.high), small, workspace_,
                   side_.threads);
    return plan;
  }

  bool apply(const Plan& plan, ConstMatrixView<T> x, MatrixView<T> out) {
    if (plan.treatment == Treatment::Zero) {
      singular_ = true;
      fill(out, T(0));
      return true;
    }
    side_.multiply(factor_, x, 0, out);
    if (plan.treatment == Treatment::Deflate) return add_small_end(plan.removed, x, out);
    singular_ = singular_ || plan.removed > 0;
    return true;
  }

  // More than add_small_end() takes for as many directions as are usually worth it: their number
  // changes from one step to the next, and the memory should not.
  static std::size_t small_end_bytes(Index n, Index length) {
    const Index k = std::max<Index>(1, n / 5);
    const Index doubles = k * (5 * n + 4 * length + 6 * k + 300) + 16 * length + 4096;
    return static_cast<std::size_t>(doubles) * sizeof(double);
  }

  // out += uᵀ polar(u x) for the k deflated directions u, in double: what is left of u x after all
  // that leaked in from the rest has been projected out may be rounding of x in float.
  bool add_small_end(Index k, ConstMatrixView<T> x, MatrixView<T> out) {
    const Workspace::Frame frame(workspace_);
    const ShortSide<double> wide{side_.left, side_.threads};
    const auto u = workspace_.template matrix<double>(k, gram_.rows);
    const auto like = [&](auto element) {
      using U = decltype(element);
      return side_.left ? workspace_.template matrix<U>(k, x.cols)
                        : workspace_.template matrix<U>(x.rows, k);
    };
    const auto part = like(double()), polar = like(double()), spare = like(double());
    convert(small_.row_range(0, k), u);
    project_on<T>(side_, u, x, part, workspace_);
    constexpr int most_passes = 3;
    double before = l2_norm<double>(part);
    for (int pass = 1; pass <= most_passes; ++pass) {
      project_out<T>(side_, out, part, workspace_);
      const double after = l2_norm<double>(part);
      if (after > before / 2) break;
      before = after;
    }
    const double length = l2_norm<double>(part);
    if (length <= cut_) {
      singular_ = true;
      return true;
    }
    const double scale = std::ldexp(1, -std::ilogb(length));
    kernels<double>().scale(part.data, scale, part.size());
    Levels<double> inner(wide, k, workspace_);
    if (!inner.run(part, cut_ * scale, false, polar, spare)) return false;
    singular_ = singular_ || inner.singular();
    const auto narrow = like(T());
    convert(polar, narrow);
    side_.transform(1, small_.row_range(0, k), Op::Transpose, narrow, 1, out);
    return true;
  }

  ShortSide<T> side_;
  Workspace& workspace_;
  double cut_ = 0;
  bool relative_ = false;
  bool singular_ = false;  // some directions are zero and stay so
  MatrixView<T> gram_, factor_, small_;
  Tridiagonal<T> tridiagonal_;
  Reflectors<T> reflectors_;
};

// q <- q + (I - q qᵀ) q / 2. At the condition numbers that the cut of a small matrix admits, even
// its Gram matrix in double leaves singular values with errors of 1e-3.
void close(const ShortSide<float>& side, MatrixView<float> q, MatrixView<float> spare,
           Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const Index n = side.size(q);
  const auto gram = square_matrix<float>(n, workspace), factor = square_matrix<float>(n, workspace);
  side.gram(1, q, 0, gram);
  affine<float>(1, -1, gram, gram);
  closing_polynomial(1, gram, factor, workspace, side.threads);
  copy<float>(q, spare);
  side.multiply(factor, spare, 0, q);
}

// q <- the polar factor of x over its singular values above `cut` times the largest one. False
// where LAPACK fails.
template <class T>
bool solve(ConstMatrixView<T> x, double cut, MatrixView<T> q, Workspace& workspace, int threads) {
  constexpr bool single = std::is_same_v<T, float>;
  const auto side = ShortSide<T>::of(x, threads);
  const Index n = side.size(x);
  if (n == 1) {
    const Reciprocal inverse = reciprocal(l2_norm<T>(x));
    for_each_run(x, q, [=](const T* from, T* to, Index count) {
      kernels<T>().add_scaled(to, 0, from, inverse.a, inverse.b, count);
    });
    return true;
  }
  const auto spare = workspace.matrix<T>(x.rows, x.cols);
  // The data decide on the way, and the memory should not change with them.
  if (single) workspace.expect(through_double_bytes(n, side.length(x)));
  if (!single || sample_looks_flat(side, x, workspace)) {
    const Workspace::Frame frame(workspace);
    if (Levels<T>(side, x, workspace).run(x, cut, true, q, spare)) return true;
  }
  if constexpr (single) {
    if (polar_through_double(side, x, cut, q, spare, workspace)) {
      if (n <= most_strict) close(side, q, spare, workspace);
      return true;
    }
  }
  return false;
}

}  // namespace

template <class T>
void exact_polar(const PolarProblem<T>& p) {
  const Workspace::Frame frame(p.workspace);
  const Occupied<T> occupied(p.x, p.workspace);
  const auto copy = p.workspace.template matrix<T>(p.x.rows, p.x.cols);
  if (!occupied.worth_it()) {
    if (!solve<T>(p.with_safe_squares(copy), p.cut(), p.q, p.workspace, p.threads)) svd_polar(p);
    return;
  }
  const auto x = copy.block(0, 0, occupied.rows(), occupied.cols());
  occupied.gather(p.x, p.scale, x);
  if (!solve<T>(x, p.cut(), p.q.block(0, 0, x.rows, x.cols), p.workspace, p.threads)) {
    return svd_polar(p);
  }
  occupied.scatter(p.q);
}

template void exact_polar(const PolarProblem<float>&);
template void exact_polar(const PolarProblem<double>&);

}  // namespace normball::detail
