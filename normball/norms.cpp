#include "normball/norms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "normball/blas.h"
#include "normball/error.h"
#include "normball/exact/spectrum.h"
#include "normball/kernels.h"
#include "normball/parallel.h"

namespace normball {
namespace {

// lengths[j] <- ‖column j of x‖₂
template <class T>
void column_lengths(ConstMatrixView<T> x, double* lengths) {
  double scale = 1;
  if constexpr (std::is_same_v<T, double>) {  // the square of a float always fits a double
    const double max = max_abs<T>(x);
    if (max > 0) scale = std::ldexp(1, -std::clamp(std::ilogb(max), -1000, 1000));
  }
  std::fill_n(lengths, x.cols, 0.0);
  for (Index i = 0; i < x.rows; ++i) kernels<T>().add_squares(lengths, x.row(i), scale, x.cols);
  for (Index j = 0; j < x.cols; ++j) lengths[j] = std::sqrt(lengths[j]) / scale;
}

// lengths[i] <- ‖row i of x‖₂
template <class T>
void row_lengths(ConstMatrixView<T> x, double* lengths) {
  for (Index i = 0; i < x.rows; ++i) lengths[i] = l2_norm(x.row(i), x.cols);
}

double sum(const double* x, Index n) {
  double total = 0;
  for (Index i = 0; i < n; ++i) total += x[i];
  return total;
}

template <class T>
std::span<T> singular_values_of(ConstMatrixView<T> x, Workspace& workspace) {
  const SingleThreadedBlas guard;
  const auto sigma = workspace.take<T>(std::min(x.rows, x.cols));
  const auto destroyed = workspace.matrix<T>(x.rows, x.cols);
  copy<T>(x, destroyed);
  blas::singular_values(destroyed, sigma.data(), workspace);
  return sigma;
}

// A user's oracle always works in double; a float matrix is copied.
MatrixView<const double> in_double(ConstMatrixView<double> x, Workspace&) { return x; }
MatrixView<const double> in_double(ConstMatrixView<float> x, Workspace& workspace) {
  const auto copy = workspace.matrix<double>(x.rows, x.cols);
  for (Index i = 0; i < x.rows; ++i) std::copy_n(x.row(i), x.cols, copy.row(i));
  return copy;
}

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
  return std::is_same_v<T, double> && norm.geometry != Geometry::Oracle && !std::isfinite(value);
}

template <class T>
void negate(MatrixView<T> x) {
  for_each_run(x, [&](Index at, Index n) { kernels<T>().scale(x.data + at, -1, n); });
}

}  // namespace

void NormOracle::lmo(ConstMatrixView<float> d, MatrixView<float> out) const {
  Workspace workspace;
  const auto result = workspace.matrix<double>(d.rows, d.cols);
  lmo(in_double(d, workspace), result);
  for (Index i = 0; i < d.rows; ++i) {
    for (Index j = 0; j < d.cols; ++j) out(i, j) = static_cast<float>(result(i, j));
  }
}

double NormOracle::norm(ConstMatrixView<double>) const {
  detail::invalid("NormOracle::norm", "the norm '", name(),
                  "' does not define norm(), which this rule or report needs");
}

Index direction_lengths(Geometry geometry, const Shape& shape) {
  if (shape.size() == 0) return 0;
  switch (geometry) {
    case Geometry::Frobenius:
      return 1;
    case Geometry::RowL2:
      return shape.rows;
    case Geometry::ColL2:
      return shape.cols;
    case Geometry::MaxAbs:
    case Geometry::Operator:
    case Geometry::Oracle:
      return 0;
  }
  return 0;
}

template <class T>
void require_descent(const NormOracle& oracle, ConstMatrixView<T> d, ConstMatrixView<T> x) {
  const double pairing = dot<T>(d, x);
  constexpr double rounding = 64 * static_cast<double>(std::numeric_limits<T>::epsilon());
  if (pairing > 0 && pairing > rounding * l2_norm<T>(d) * l2_norm<T>(x)) {
    detail::invalid("NormOracle::lmo", "the norm '", oracle.name(),
                    "' returned x with <d, x> = ", pairing,
                    "; a minimizer over a ball has <d, x> <= 0: is its minus sign missing?");
  }
}

template <class T>
double find_direction(const ResolvedNorm& norm, ConstMatrixView<T> d, Direction<T> direction,
                      Workspace& workspace, T* polar_state, int threads) {
  switch (norm.geometry) {
    case Geometry::Frobenius:
      return *direction.lengths = l2_norm<T>(d);
    case Geometry::MaxAbs:
      return sum_abs<T>(d);
    case Geometry::RowL2:
      row_lengths<T>(d, direction.lengths);
      return sum(direction.lengths, d.rows);
    case Geometry::ColL2:
      column_lengths<T>(d, direction.lengths);
      return sum(direction.lengths, d.cols);
    case Geometry::Operator:
      polar<T>(norm.solver, d, direction.u, workspace, polar_state, threads);
      return dot<T>(d, direction.u);
    case Geometry::Oracle:
      norm.oracle->lmo(d, direction.u);
      require_descent<T>(*norm.oracle, d, direction.u);
      negate(direction.u);
      return dot<T>(d, direction.u);
  }
  return 0;
}

template <class T>
void add_direction(Geometry geometry, ConstMatrixView<T> d, const Direction<T>& direction,
                   double keep, double factor, MatrixView<T> out, Workspace& workspace) {
  const auto& kernel = kernels<T>();
  switch (geometry) {
    case Geometry::Frobenius: {
      const Reciprocal inverse = reciprocal(*direction.lengths);
      for_each_run(out, d, [&](T* to, const T* from, Index n) {
        kernel.add_scaled(to, keep, from, inverse.a, inverse.b * factor, n);
      });
      break;
    }
    case Geometry::MaxAbs:
      for_each_run(out, d, [&](T* to, const T* from, Index n) {
        kernel.add_signs(to, keep, from, factor, n);
      });
      break;
    case Geometry::RowL2:
      for (Index i = 0; i < d.rows; ++i) {
        const auto [a, b] = reciprocal(direction.lengths[i]);
        kernel.add_scaled(out.row(i), keep, d.row(i), a, b * factor, d.cols);
      }
      break;
    case Geometry::ColL2: {
      const Workspace::Frame frame(workspace);
      const auto as = workspace.take<double>(d.cols), bs = workspace.take<double>(d.cols);
      for (size_t j = 0; j < as.size(); ++j) {
        const auto [a, b] = reciprocal(direction.lengths[j]);
        as[j] = a;
        bs[j] = b * factor;
      }
      for (Index i = 0; i < d.rows; ++i) {
        kernel.add_by_column(out.row(i), keep, d.row(i), as.data(), bs.data(), d.cols);
      }
      break;
    }
    case Geometry::Operator:
    case Geometry::Oracle:
      for_each_run(out, direction.u, [&](T* to, const T* from, Index n) {
        kernel.add_scaled(to, keep, from, factor, 1, n);
      });
      break;
  }
}

std::size_t add_direction_scratch(Geometry geometry, const Shape& shape) {
  const auto factors = static_cast<std::size_t>(shape.cols) * sizeof(double);
  return geometry == Geometry::ColL2 && shape.size() > 0 ? 2 * Workspace::rounded(factors) : 0;
}

namespace {

// out <- factor lmo(d); returns ‖d‖* as the pairing estimates it.
template <class T>
double scaled_lmo(std::string_view where, const Norm& norm, const Shape* shape,
                  ConstMatrixView<T> d, MatrixView<T> out, double factor, Workspace& workspace) {
  const ResolvedNorm resolved = detail::resolve_for(where, norm, shape, "d", d);
  detail::require_view(where, "out", out);
  detail::require_same_size(where, "out", out, "d", d);
  const bool in_place = out.data == d.data && (out.stride == d.stride || d.rows <= 1);
  if (!in_place && detail::overlap(out, d)) {
    detail::invalid(where, "out and d share memory in part: let it be all of it, or none");
  }
  if (!all_finite(d)) detail::invalid(where, "d has an entry that is not finite");
  if (d.empty()) return 0;
  const Workspace::Frame frame(workspace);
  Direction<T> direction{
      .lengths = workspace.take<double>(direction_lengths(resolved.geometry, shape_of(d))).data(),
      .u = {}};
  if (needs_buffer(resolved.geometry)) direction.u = workspace.matrix<T>(d.rows, d.cols);
  const auto find = [&] {
    return resolved.scale *
           find_direction<T>(resolved, d, direction, workspace, nullptr, default_threads());
  };
  double dual = find();
  if (shrinking_helps<T>(resolved, dual)) {
    d = shrunk<T>(d, workspace);
    dual = std::ldexp(find(), -shrinking);
  }
  add_direction<T>(resolved.geometry, d, direction, 0, -factor * resolved.scale, out, workspace);
  return dual;
}

}  // namespace

namespace detail {

template <class T>
ResolvedNorm resolve_for(std::string_view where, const Norm& norm, const Shape* shape,
                         std::string_view what, ConstMatrixView<T> x) {
  require_view(where, what, x);
  if (shape && (shape->rows != x.rows || shape->cols != x.cols)) {
    invalid(where, "the shape is ", shape->rows, "x", shape->cols, " but ", what, " is ", x.rows,
            "x", x.cols);
  }
  return resolve(norm, shape ? *shape : shape_of(x));
}

namespace {

template <class T>
double norm_of_finite(const ResolvedNorm& norm, ConstMatrixView<T> x, Workspace& workspace) {
  switch (norm.geometry) {
    case Geometry::Frobenius:
      return l2_norm<T>(x) / norm.scale;
    case Geometry::MaxAbs:
      return max_abs<T>(x) / norm.scale;
    case Geometry::RowL2: {
      const auto lengths = workspace.take<double>(x.rows);
      row_lengths<T>(x, lengths.data());
      return *std::ranges::max_element(lengths) / norm.scale;
    }
    case Geometry::ColL2: {
      const auto lengths = workspace.take<double>(x.cols);
      column_lengths<T>(x, lengths.data());
      return *std::ranges::max_element(lengths) / norm.scale;
    }
    case Geometry::Operator:
      return largest_singular_value<T>(x, workspace) / norm.scale;
    case Geometry::Oracle: {
      const double value = norm.oracle->norm(in_double(x, workspace));
      if (value < 0) {
        invalid("NormOracle::norm", "the norm '", norm.oracle->name(), "' returned ", value,
                "; a norm is not negative");
      }
      return value;
    }
  }
  return 0;
}

template <class T>
double dual_norm_of_finite(const ResolvedNorm& norm, ConstMatrixView<T> d, Workspace& workspace) {
  if (norm.geometry == Geometry::Operator) {
    double total = 0;
    for (const T sigma : singular_values_of<T>(d, workspace)) total += static_cast<double>(sigma);
    return norm.scale * total;
  }
  Direction<T> direction{
      .lengths = workspace.take<double>(direction_lengths(norm.geometry, shape_of(d))).data(),
      .u = {}};
  if (needs_buffer(norm.geometry)) direction.u = workspace.matrix<T>(d.rows, d.cols);
  return norm.scale * find_direction<T>(norm, d, direction, workspace);
}

}  // namespace

template <class T>
double norm(const ResolvedNorm& norm, ConstMatrixView<T> x, Workspace& workspace) {
  require_view("norm", "x", x);
  if (x.empty()) return 0;
  if (const auto value = nonfinite_norm(x)) return *value;
  const Workspace::Frame frame(workspace);
  const double value = norm_of_finite<T>(norm, x, workspace);
  if (!shrinking_helps<T>(norm, value)) return value;
  return std::ldexp(norm_of_finite<T>(norm, shrunk<T>(x, workspace), workspace), -shrinking);
}

template <class T>
double dual_norm(const ResolvedNorm& norm, ConstMatrixView<T> d, Workspace& workspace) {
  require_view("dual_norm", "d", d);
  if (d.empty()) return 0;
  if (const auto value = nonfinite_norm(d)) return *value;
  const Workspace::Frame frame(workspace);
  const double value = dual_norm_of_finite<T>(norm, d, workspace);
  if (!shrinking_helps<T>(norm, value)) return value;
  return std::ldexp(dual_norm_of_finite<T>(norm, shrunk<T>(d, workspace), workspace), -shrinking);
}

}  // namespace detail

template <class T>
double lmo(const Norm& norm, std::type_identity_t<ConstMatrixView<T>> d, MatrixView<T> out,
           const Shape* shape) {
  Workspace workspace;
  return scaled_lmo<T>("lmo", norm, shape, d, out, 1, workspace);
}

template <class T>
double sharp(const Norm& norm, std::type_identity_t<ConstMatrixView<T>> d, MatrixView<T> out,
             const Shape* shape) {
  Workspace workspace;
  const double dual = scaled_lmo<T>("sharp", norm, shape, d, out, -1, workspace);
  for_each_run(out, [&](Index at, Index n) { kernels<T>().scale(out.data + at, dual, n); });
  if (!all_finite(out)) {
    detail::invalid("sharp", "the result overflows, for the dual norm of d is ", dual,
                    ": scale d down");
  }
  return dual;
}

template <class T>
void sample_sphere(const Norm& norm, const Shape& shape, double radius, MatrixView<T> x,
                   Random& random) {
  detail::resolve_for<T>("sample_sphere", norm, &shape, "x", x);
  detail::require_positive("sample_sphere", "radius", radius);
  Workspace workspace;
  const auto gaussian = workspace.matrix<T>(x.rows, x.cols);
  for (Index i = 0; i < gaussian.size(); ++i) gaussian.data[i] = static_cast<T>(random.normal());
  Norm exact = norm;
  if (auto* spectral = std::get_if<Spectral>(&exact)) spectral->solver = ExactPolar{};
  scaled_lmo<T>("sample_sphere", exact, &shape, gaussian, x, radius, workspace);
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
  template void require_descent(const NormOracle&, ConstMatrixView<T>, ConstMatrixView<T>);      \
  template double find_direction(const ResolvedNorm&, ConstMatrixView<T>, Direction<T>,          \
                                 Workspace&, T*, int);                                           \
  template void add_direction(Geometry, ConstMatrixView<T>, const Direction<T>&, double, double, \
                              MatrixView<T>, Workspace&);                                        \
  template ResolvedNorm detail::resolve_for(std::string_view, const Norm&, const Shape*,         \
                                            std::string_view, ConstMatrixView<T>);               \
  template double lmo<T>(const Norm&, std::type_identity_t<ConstMatrixView<T>>, MatrixView<T>,   \
                         const Shape*);                                                          \
  template double detail::norm(const ResolvedNorm&, ConstMatrixView<T>, Workspace&);             \
  template double detail::dual_norm(const ResolvedNorm&, ConstMatrixView<T>, Workspace&);        \
  template double sharp<T>(const Norm&, std::type_identity_t<ConstMatrixView<T>>, MatrixView<T>, \
                           const Shape*);                                                        \
  template void sample_sphere(const Norm&, const Shape&, double, MatrixView<T>, Random&);        \
  template void initialize(const Norm&, const Shape&, double, MatrixView<T>, Random&);
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball
