#include "normball/norms/euclidean.h"

#include "normball/internal/fans.h"
#include "normball/internal/geometry.h"

namespace normball {

Euclidean Euclidean::parse(TextCall&) { return {}; }
std::string Euclidean::text() const { return "euclidean"; }
ResolvedNorm Euclidean::resolve(const Shape&) const { return {.geometry = Geometry::Frobenius}; }

Rms Rms::parse(TextCall&) { return {}; }
std::string Rms::text() const { return "rms"; }
ResolvedNorm Rms::resolve(const Shape& shape) const {
  return {.geometry = Geometry::Frobenius, .scale = detail::root(shape.size())};
}

namespace detail {
namespace {

// u = d / ‖d‖₂, from the one length ‖d‖₂.
struct Frobenius {
  static constexpr Lengths lengths = Lengths::One;

  template <class T>
  static double find(const ResolvedNorm&, ConstMatrixView<T> d, const Direction<T>& direction,
                     const Scratch<T>&) {
    return *direction.lengths = l2_norm<T>(d);
  }

  template <class T>
  static void add(ConstMatrixView<T> d, const Direction<T>& direction, double keep, double factor,
                  MatrixView<T> out, Workspace&) {
    const Reciprocal inverse = reciprocal(*direction.lengths);
    for_each_run(out, d, [&](T* to, const T* from, Index n) {
      kernels<T>().add_scaled(to, keep, from, inverse.a, inverse.b * factor, n);
    });
  }

  template <class T>
  static double norm(const ResolvedNorm&, ConstMatrixView<T> x, Workspace&) {
    return l2_norm<T>(x);
  }
};

}  // namespace

template <>
const GeometryRules& rules<Geometry::Frobenius>() {
  static constexpr GeometryRules all = rules_of<Frobenius>();
  return all;
}

}  // namespace detail
}  // namespace normball
