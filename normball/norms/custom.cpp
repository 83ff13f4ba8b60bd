#include "normball/norms/custom.h"

#include <algorithm>
#include <limits>

#include "normball/base/error.h"
#include "normball/internal/geometry.h"

namespace normball {
namespace {

// An oracle's norm() always works in double; a float matrix is copied.
MatrixView<const double> in_double(ConstMatrixView<double> x, Workspace&) { return x; }
MatrixView<const double> in_double(ConstMatrixView<float> x, Workspace& workspace) {
  const auto copy = workspace.matrix<double>(x.rows, x.cols);
  for (Index i = 0; i < x.rows; ++i) std::copy_n(x.row(i), x.cols, copy.row(i));
  return copy;
}

}  // namespace

void NormOracle::lmo(ConstMatrixView<float> d, MatrixView<float> out) const {
  static thread_local Workspace workspace;  // so that later calls allocate nothing
  const auto bytes = sizeof(double) * static_cast<size_t>(d.rows * d.cols);
  workspace.reserve(2 * Workspace::rounded(bytes));
  const Workspace::Frame frame(workspace);
  const auto result = workspace.matrix<double>(d.rows, d.cols);
  lmo(in_double(d, workspace), result);
  for (Index i = 0; i < d.rows; ++i) {
    for (Index j = 0; j < d.cols; ++j) out(i, j) = static_cast<float>(result(i, j));
  }
}

double NormOracle::norm(ConstMatrixView<double>) const {
  throw_invalid("NormOracle::norm", "the norm '", name(),
                "' does not define norm(), which this rule or report needs");
}

template <class T>
void require_descent(const NormOracle& oracle, ConstMatrixView<T> d, ConstMatrixView<T> x) {
  const double pairing = dot<T>(d, x);
  constexpr double rounding = 64 * static_cast<double>(std::numeric_limits<T>::epsilon());
  if (pairing > 0 && pairing > rounding * l2_norm<T>(d) * l2_norm<T>(x)) {
    throw_invalid("NormOracle::lmo", "the norm '", oracle.name(),
                  "' returned x with <d, x> = ", pairing,
                  "; a minimizer over a ball has <d, x> <= 0: is its minus sign missing?");
  }
}

template void require_descent(const NormOracle&, ConstMatrixView<float>, ConstMatrixView<float>);
template void require_descent(const NormOracle&, ConstMatrixView<double>, ConstMatrixView<double>);

Custom Custom::parse(TextCall&) { return {}; }

std::string Custom::text() const { return oracle ? oracle->name() : "custom"; }

ResolvedNorm Custom::resolve(const Shape&) const {
  if (!oracle) throw_invalid("Custom", "oracle must not be null");
  return {.geometry = Geometry::Oracle, .oracle = oracle};
}

namespace detail {
namespace {

// What the oracle answers, negated and stored.
struct Oracle : StoredDirection {
  static constexpr bool homogeneous = false;  // a user's norm need not be

  template <class T>
  static double find(const ResolvedNorm& norm, ConstMatrixView<T> d, const Direction<T>& direction,
                     const Scratch<T>&) {
    const auto u = direction.u;
    norm.oracle->lmo(d, u);
    require_descent<T>(*norm.oracle, d, u);
    for_each_run(u, [&](Index at, Index n) { kernels<T>().scale(u.data + at, -1, n); });
    return dot<T>(d, u);
  }

  template <class T>
  static double norm(const ResolvedNorm& norm, ConstMatrixView<T> x, Workspace& workspace) {
    const double value = norm.oracle->norm(in_double(x, workspace));
    if (value < 0) {
      throw_invalid("NormOracle::norm", "the norm '", norm.oracle->name(), "' returned ", value,
                    "; a norm is not negative");
    }
    return value;
  }
};

}  // namespace

template <>
const GeometryRules& rules<Geometry::Oracle>() {
  static constexpr GeometryRules all = rules_of<Oracle>();
  return all;
}

}  // namespace detail
}  // namespace normball
