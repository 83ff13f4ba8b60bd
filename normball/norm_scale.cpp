// From a norm and a shape to a geometry and a number.
#include <algorithm>
#include <cmath>

#include "normball/error.h"
#include "normball/norms.h"

namespace normball {
namespace {

double root(Index n) { return std::sqrt(static_cast<double>(std::max<Index>(n, 1))); }

// How a layer maps fan-in to fan-out, after `transposed` has swapped them.
struct Fans {
  Index out;
  Index in;      // without the kernel
  Index kernel;  // k, or k*k

  Fans(const Shape& shape, bool transposed)
      : out(shape.rows), in(shape.fan_in()), kernel(shape.kernel) {
    if (transposed) std::swap(out, in);
  }
  Index columns() const { return in * kernel; }
};

double spectral_scale(const Spectral& norm, const Shape& shape) {
  const Fans fans(shape, norm.transposed);
  const double ratio = root(fans.out) / root(fans.in);
  const double kernel = static_cast<double>(fans.kernel);
  switch (norm.scale) {
    case SpectralScale::Hidden:
      return ratio / kernel;
    case SpectralScale::Input:
      return std::max(1.0, ratio) / kernel;
    case SpectralScale::OneHot:
      return root(fans.out) / kernel;
    case SpectralScale::Unit:
      return 1;
  }
  return 1;
}

struct Resolver {
  const Shape& shape;

  ResolvedNorm operator()(const Auto&) const {
    return shape.rank <= 1 ? (*this)(Rms{}) : (*this)(Spectral{});
  }
  ResolvedNorm operator()(const Euclidean&) const { return {.geometry = Geometry::Frobenius}; }
  ResolvedNorm operator()(const Rms&) const {
    return {.geometry = Geometry::Frobenius, .scale = root(shape.size())};
  }
  ResolvedNorm operator()(const Sign& norm) const {
    const Index fan_in = std::max<Index>(1, Fans(shape, norm.transposed).columns());
    return {.geometry = Geometry::MaxAbs, .scale = norm.unit ? 1 : 1 / static_cast<double>(fan_in)};
  }
  ResolvedNorm operator()(const Spectral& norm) const {
    validate(norm.solver);
    return {.geometry = Geometry::Operator,
            .scale = spectral_scale(norm, shape),
            .solver = norm.solver};
  }
  ResolvedNorm operator()(const ColNorm& norm) const {
    return {.geometry = norm.transposed ? Geometry::RowL2 : Geometry::ColL2,
            .scale = root(Fans(shape, norm.transposed).out)};
  }
  ResolvedNorm operator()(const RowNorm& norm) const {
    return {.geometry = norm.transposed ? Geometry::ColL2 : Geometry::RowL2,
            .scale = 1 / root(Fans(shape, norm.transposed).columns())};
  }
  ResolvedNorm operator()(const Custom& norm) const {
    if (!norm.oracle) detail::invalid("Custom", "oracle must not be null");
    return {.geometry = Geometry::Oracle, .oracle = norm.oracle};
  }
};

}  // namespace

Norm norm_for(Role role) {
  switch (role) {
    case Role::Input:
      return Spectral{.scale = SpectralScale::Input};
    case Role::OneHot:
      return ColNorm{.transposed = true};
    case Role::Hidden:
      return Spectral{};
    case Role::Output:
      return Sign{};
    case Role::Bias:
      return Rms{};
  }
  return Auto{};
}

ResolvedNorm resolve(const Norm& norm, const Shape& shape) {
  validate(shape);
  return std::visit(Resolver{shape}, norm);
}

}  // namespace normball
