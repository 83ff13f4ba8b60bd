#include "normball/norms/sign.h"

#include <algorithm>

#include "normball/base/text.h"
#include "normball/internal/fans.h"
#include "normball/internal/geometry.h"

namespace normball {

Sign Sign::parse(TextCall& call) {
  const bool unit = call.take_flag("unit");
  return {.unit = unit, .transposed = call.take_flag("transposed")};
}

std::string Sign::text() const {
  return call_text("sign", {unit ? "unit" : "", transposed ? "transposed" : ""});
}

ResolvedNorm Sign::resolve(const Shape& shape) const {
  const Index fan_in = std::max<Index>(1, detail::Fans(shape, transposed).columns());
  return {.geometry = Geometry::MaxAbs, .scale = unit ? 1 : 1 / static_cast<double>(fan_in)};
}

namespace detail {
namespace {

// u = sign(d), a function of d alone.
struct MaxAbs {
  template <class T>
  static double find(const ResolvedNorm&, ConstMatrixView<T> d, const Direction<T>&,
                     const Scratch<T>&) {
    return sum_abs<T>(d);
  }

  template <class T>
  static void add(ConstMatrixView<T> d, const Direction<T>&, double keep, double factor,
                  MatrixView<T> out, Workspace&) {
    for_each_run(out, d, [&](T* to, const T* from, Index n) {
      kernels<T>().add_signs(to, keep, from, factor, n);
    });
  }

  template <class T>
  static double norm(const ResolvedNorm&, ConstMatrixView<T> x, Workspace&) {
    return max_abs<T>(x);
  }
};

}  // namespace

template <>
const GeometryRules& rules<Geometry::MaxAbs>() {
  static constexpr GeometryRules all = rules_of<MaxAbs>();
  return all;
}

}  // namespace detail
}  // namespace normball
