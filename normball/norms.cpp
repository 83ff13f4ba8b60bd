// What holds for every norm: checks, numbers beyond the range, and what follows from the LMO.
#include "normball/norms.h"

#include <cmath>
#include <limits>
#include <optional>

#include "normball/base/error.h"
#include "normball/base/parallel.h"
#include "normball/internal/geometry.h"
#include "normball/internal/kernels/kernels.h"

namespace normball {
namespace {

// What every norm is of a matrix with an entry that is not finite: NaN, or else infinity.
template <class T>
std::optional<double> nonfinite_norm(ConstMatrixView<T> x) {
  if (all_finite(x)) return {};
  for (Index i = 0; i < x.rows; ++i) {
    for (Index j = 0; j < x.cols; ++j) {
      if (std::isnan(x(i, j))) return std::numeric_limits<double>::quiet_NaN();
    }
  }
  return std::numeric_limits<double>::infinity();
}

// 2^-600: what overflows in sums of doubles, and in lengths, does not below it.
constexpr int shrinking = -600;

template <class T>
ConstMatrixView<T> shrunk(ConstMatrixView<T> x, Workspace& workspace) {
  const auto copy_of_x = workspace.matrix<T>(x.rows, x.cols);
  copy<T>(x, copy_of_x);
  kernels<T>().scale(copy_of_x.data, std::ldexp(1, shrinking), copy_of_x.size());
  return copy_of_x;
}

// Whether a value of a finite x has overflowed on the way and may be had from the shrunk x. A float
// never does so, and a user's norm need not be scaled.
template <class T>
bool shrinking_helps(const ResolvedNorm& norm, double value) {
  return std::is_same_v<T, double> && detail::rules(norm.geometry).homogeneous &&
         !depends_on_scale(norm.solver) && !std::isfinite(value);
}

// out <- factor lmo(d); returns ‖d‖* as the pairing estimates it.
template <class T>
double scaled_lmo(std::string_view where, const ResolvedNorm& norm, ConstMatrixView<T> d,
                  MatrixView<T> out, double factor, Workspace& workspace) {
  require_view(where, out, "out");
  require_same_size(where, "out", out, "d", d);
  const bool in_place = out.data == d.data && (out.stride == d.stride || d.rows <= 1);
  if (!in_place && detail::overlap(out, d)) {
    throw_invalid(where, "out and d overlap in part: pass the same memory or separate memory");
  }
  if (!all_finite(d)) throw_invalid(where, "d has an entry that is not finite");
  if (d.empty()) return 0;
  const Workspace::Frame frame(workspace);
  const detail::GeometryRules& rules = detail::rules(norm.geometry);
  const auto direction = detail::direction_in(workspace, rules, d);
  const auto find = [&] {
    return norm.scale * rules.in<T>().find(norm, d, direction,
                                           {.workspace = workspace, .threads = default_threads()});
  };
  double dual = find();
  if (shrinking_helps<T>(norm, dual)) {
    d = shrunk<T>(d, workspace);
    dual = std::ldexp(find(), -shrinking);
  }
  rules.in<T>().add(d, direction, 0, -factor * norm.scale, out, workspace);
  return dual;
}

template <class T>
double finite_norm(const ResolvedNorm& norm, ConstMatrixView<T> x, Workspace& workspace) {
  return detail::rules(norm.geometry).in<T>().norm(norm, x, workspace) / norm.scale;
}

template <class T>
double finite_dual_norm(const ResolvedNorm& norm, ConstMatrixView<T> d, Workspace& workspace) {
  return norm.scale * detail::rules(norm.geometry).in<T>().dual_norm(norm, d, workspace);
}

}  // namespace

ResolvedNorm resolve(const Norm& norm, const Shape& shape) {
  validate(shape);
  return std::visit([&](const auto& own) { return own.resolve(shape); }, norm);
}

namespace detail {

template <class T>
ResolvedNorm resolve_for(std::string_view where, const Norm& norm, const Shape* shape,
                         std::string_view what, ConstMatrixView<T> x) {
  require_view(where, x, what);
  if (shape && (shape->rows != x.rows || shape->cols != x.cols)) {
    throw_invalid(where, "the shape is ", shape->rows, "x", shape->cols, " but ", what, " is ",
                  x.rows, "x", x.cols);
  }
  return resolve(norm, shape ? *shape : shape_of(x));
}

}  // namespace detail

template <class T>
double norm_of(const ResolvedNorm& norm, ConstMatrixView<T> x, Workspace& workspace) {
  require_view("norm", x, "x");
  if (x.empty()) return 0;
  if (const auto value = nonfinite_norm(x)) return *value;
  const Workspace::Frame frame(workspace);
  const double value = finite_norm<T>(norm, x, workspace);
  if (!shrinking_helps<T>(norm, value)) return value;
  return std::ldexp(finite_norm<T>(norm, shrunk<T>(x, workspace), workspace), -shrinking);
}

template <class T>
double dual_norm_of(const ResolvedNorm& norm, ConstMatrixView<T> d, Workspace& workspace) {
  require_view("dual_norm", d, "d");
  if (d.empty()) return 0;
  if (const auto value = nonfinite_norm(d)) return *value;
  const Workspace::Frame frame(workspace);
  const double value = finite_dual_norm<T>(norm, d, workspace);
  if (!shrinking_helps<T>(norm, value)) return value;
  return std::ldexp(finite_dual_norm<T>(norm, shrunk<T>(d, workspace), workspace), -shrinking);
}

template <class T>
double lmo(const Norm& norm, std::type_identity_t<ConstMatrixView<T>> d, MatrixView<T> out,
           const Shape* shape) {
  Workspace workspace;
  return scaled_lmo<T>("lmo", detail::resolve_for<T>("lmo", norm, shape, "d", d), d, out, 1,
                       workspace);
}

template <class T>
double sharp(const Norm& norm, std::type_identity_t<ConstMatrixView<T>> d, MatrixView<T> out,
             const Shape* shape) {
  Workspace workspace;
  const double dual = scaled_lmo<T>("sharp", detail::resolve_for<T>("sharp", norm, shape, "d", d),
                                    d, out, -1, workspace);
  for_each_run(out, [&](Index at, Index n) { kernels<T>().scale(out.data + at, dual, n); });
  if (!all_finite(out)) {
    throw_invalid("sharp", "the result overflows, since the dual norm of d is ", dual,
                  ": scale d down");
  }
  return dual;
}

template <class T>
void sample_sphere(const Norm& norm, const Shape& shape, double radius, MatrixView<T> x,
                   Random& random) {
  ResolvedNorm resolved = detail::resolve_for<T>("sample_sphere", norm, &shape, "x", x);
  resolved.solver = ExactPolar{};  // a random point lies on the sphere whatever the steps use
  require_positive("sample_sphere", "radius", radius);
  Workspace workspace;
  const auto gaussian = workspace.matrix<T>(x.rows, x.cols);
  for (Index i = 0; i < gaussian.size(); ++i) gaussian.data[i] = static_cast<T>(random.normal());
  scaled_lmo<T>("sample_sphere", resolved, gaussian, x, radius, workspace);
}

template <class T>
void initialize(const Norm& norm, const Shape& shape, double radius, MatrixView<T> x,
                Random& random) {
  if (shape.rank <= 1) {
    detail::resolve_for<T>("initialize", norm, &shape, "x", x);
    fill(x, T(0));
  } else {
    sample_sphere(norm, shape, radius, x, random);
  }
}

#define NORMBALL_INSTANTIATE(T)                                                                  \
  template ResolvedNorm detail::resolve_for(std::string_view, const Norm&, const Shape*,         \
                                            std::string_view, ConstMatrixView<T>);               \
  template double lmo<T>(const Norm&, std::type_identity_t<ConstMatrixView<T>>, MatrixView<T>,   \
                         const Shape*);                                                          \
  template double norm_of(const ResolvedNorm&, ConstMatrixView<T>, Workspace&);                  \
  template double dual_norm_of(const ResolvedNorm&, ConstMatrixView<T>, Workspace&);             \
  template double sharp<T>(const Norm&, std::type_identity_t<ConstMatrixView<T>>, MatrixView<T>, \
                           const Shape*);                                                        \
  template void sample_sphere(const Norm&, const Shape&, double, MatrixView<T>, Random&);        \
  template void initialize(const Norm&, const Shape&, double, MatrixView<T>, Random&);
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball
