#include "normball/norms/spectral.h"

#include <algorithm>
#include <utility>

#include "normball/base/error.h"
#include "normball/base/parallel.h"
#include "normball/base/text.h"
#include "normball/internal/fans.h"
#include "normball/internal/geometry.h"
#include "normball/internal/kernels/blas.h"
#include "normball/internal/polar/exact/spectrum.h"

namespace normball {
namespace {

constexpr std::array<std::pair<std::string_view, SpectralScale>, 4> scales = {{
    {"hidden", SpectralScale::Hidden},
    {"input", SpectralScale::Input},
    {"onehot", SpectralScale::OneHot},
    {"unit", SpectralScale::Unit},
}};

std::string scale_text(SpectralScale scale) {
  const auto found =
      std::ranges::find(scales, scale, &std::pair<std::string_view, SpectralScale>::second);
  return scale == SpectralScale::Hidden ? "" : std::string(found->first);
}

}  // namespace

Spectral Spectral::parse(TextCall& call) {
  Spectral norm;
  norm.transposed = call.take_flag("transposed");
  std::string_view chosen;
  for (const auto& [name, scale] : scales) {
    if (!call.take_flag(name)) continue;
    if (!chosen.empty()) {
      throw_invalid("parse_norm", "'", chosen, "' and '", name,
                    "' are two scalings of the spectral norm: choose one");
    }
    chosen = name;
    norm.scale = scale;
  }
  norm.solver = parse_polar_solver(call.take("solver", "exact"));
  return norm;
}

std::string Spectral::text() const {
  const bool exact = std::holds_alternative<ExactPolar>(solver);
  return call_text("spectral", {scale_text(scale), transposed ? "transposed" : "",
                                exact ? "" : "solver=" + to_string(solver)});
}

ResolvedNorm Spectral::resolve(const Shape& shape) const {
  validate(solver);
  const detail::Fans fans(shape, transposed);
  const double ratio = detail::root(fans.out) / detail::root(fans.in);
  const double kernel = static_cast<double>(fans.kernel);
  double number = 1;
  switch (scale) {
    case SpectralScale::Hidden:
      number = ratio / kernel;
      break;
    case SpectralScale::Input:
      number = std::max(1.0, ratio) / kernel;
      break;
    case SpectralScale::OneHot:
      number = detail::root(fans.out) / kernel;
      break;
    case SpectralScale::Unit:
      break;
  }
  return {.geometry = Geometry::Operator, .scale = number, .solver = solver};
}

namespace detail {
namespace {

// u = UVᵀ of d = U diag(sigma) Vᵀ, which is stored.
struct Operator : StoredDirection {
  static constexpr bool may_overwrite_gradient = true;
  static constexpr bool uses_threads = true;

  static double cost(Index rows, Index cols) {
    return elementwise_cost(rows, cols) * (20 + 2 * static_cast<double>(std::min(rows, cols)));
  }
  static Index state_size(const ResolvedNorm& norm, const Shape& shape) {
    return polar_state_size(norm.solver, shape.rows, shape.cols);
  }

  template <class T>
  static double find(const ResolvedNorm& norm, ConstMatrixView<T> d, const Direction<T>& direction,
                     const Scratch<T>& scratch) {
    polar<T>(norm.solver, d, direction.u, scratch.workspace, scratch.state, scratch.threads);
    return dot<T>(d, direction.u);
  }

  template <class T>
  static double norm(const ResolvedNorm&, ConstMatrixView<T> x, Workspace& workspace) {
    return largest_singular_value<T>(x, workspace);
  }

  template <class T>
  static double dual_norm(const ResolvedNorm&, ConstMatrixView<T> d, Workspace& workspace) {
    const SingleThreadedBlas guard;
    const auto sigma = workspace.take<T>(std::min(d.rows, d.cols));
    const auto destroyed = workspace.matrix<T>(d.rows, d.cols);
    copy<T>(d, destroyed);
    blas::singular_values(destroyed, sigma.data(), workspace);
    double total = 0;
    for (const T value : sigma) total += static_cast<double>(value);
    return total;
  }
};

}  // namespace

template <>
const GeometryRules& rules<Geometry::Operator>() {
  static constexpr GeometryRules all = rules_of<Operator>();
  return all;
}

}  // namespace detail
}  // namespace normball
