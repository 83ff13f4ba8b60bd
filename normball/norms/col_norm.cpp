#include "normball/norms/col_norm.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "normball/base/text.h"
#include "normball/internal/fans.h"
#include "normball/internal/geometry.h"

namespace normball {

ColNorm ColNorm::parse(TextCall& call) { return {.transposed = call.take_flag("transposed")}; }

std::string ColNorm::text() const { return call_text("col", {transposed ? "transposed" : ""}); }

ResolvedNorm ColNorm::resolve(const Shape& shape) const {
  return {.geometry = transposed ? Geometry::RowL2 : Geometry::ColL2,
          .scale = detail::root(detail::Fans(shape, transposed).out)};
}

namespace detail {
namespace {

// Every column divided by its length.
struct ColL2 {
  static constexpr Lengths lengths = Lengths::Columns;

  template <class T>
  static double find(const ResolvedNorm&, ConstMatrixView<T> d, const Direction<T>& direction,
                     const Scratch<T>&) {
    measure(d, direction.lengths);
    return std::accumulate(direction.lengths, direction.lengths + d.cols, 0.0);
  }

  template <class T>
  static void add(ConstMatrixView<T> d, const Direction<T>& direction, double keep, double factor,
                  MatrixView<T> out, Workspace& workspace) {
    const Workspace::Frame frame(workspace);
    const auto as = workspace.take<double>(d.cols), bs = workspace.take<double>(d.cols);
    for (size_t j = 0; j < as.size(); ++j) {
      const auto [a, b] = reciprocal(direction.lengths[j]);
      as[j] = a;
      bs[j] = b * factor;
    }
    for (Index i = 0; i < d.rows; ++i) {
      kernels<T>().add_by_column(out.row(i), keep, d.row(i), as.data(), bs.data(), d.cols);
    }
  }

  static std::size_t add_scratch(const Shape& shape) {
    return 2 * Workspace::rounded(static_cast<std::size_t>(shape.cols) * sizeof(double));
  }

  template <class T>
  static double norm(const ResolvedNorm&, ConstMatrixView<T> x, Workspace& workspace) {
    const auto columns = workspace.take<double>(x.cols);
    measure(x, columns.data());
    return *std::ranges::max_element(columns);
  }

 private:
  template <class T>
  static void measure(ConstMatrixView<T> x, double* columns) {
    double scale = 1;
    if constexpr (std::is_same_v<T, double>) {  // the square of a float always fits a double
      const double max = max_abs<T>(x);
      if (max > 0) scale = std::ldexp(1, -std::clamp(std::ilogb(max), -1000, 1000));
    }
    std::fill_n(columns, x.cols, 0.0);
    for (Index i = 0; i < x.rows; ++i) kernels<T>().add_squares(columns, x.row(i), scale, x.cols);
    for (Index j = 0; j < x.cols; ++j) columns[j] = std::sqrt(columns[j]) / scale;
  }
};

}  // namespace

template <>
const GeometryRules& rules<Geometry::ColL2>() {
  static constexpr GeometryRules all = rules_of<ColL2>();
  return all;
}

}  // namespace detail
}  // namespace normball
