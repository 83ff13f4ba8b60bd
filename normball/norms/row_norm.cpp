#include "normball/norms/row_norm.h"

#include <algorithm>
#include <numeric>

#include "normball/base/text.h"
#include "normball/internal/fans.h"
#include "normball/internal/geometry.h"

namespace normball {

RowNorm RowNorm::parse(TextCall& call) { return {.transposed = call.take_flag("transposed")}; }

std::string RowNorm::text() const { return call_text("row", {transposed ? "transposed" : ""}); }

ResolvedNorm RowNorm::resolve(const Shape& shape) const {
  return {.geometry = transposed ? Geometry::ColL2 : Geometry::RowL2,
          .scale = 1 / detail::root(detail::Fans(shape, transposed).columns())};
}

namespace detail {
namespace {

// u_i = d_i / ‖d_i‖₂ for every row, from their lengths.
struct RowL2 {
  static constexpr Lengths lengths = Lengths::Rows;

  template <class T>
  static double find(const ResolvedNorm&, ConstMatrixView<T> d, const Direction<T>& direction,
                     const Scratch<T>&) {
    measure(d, direction.lengths);
    return std::accumulate(direction.lengths, direction.lengths + d.rows, 0.0);
  }

  template <class T>
  static void add(ConstMatrixView<T> d, const Direction<T>& direction, double keep, double factor,
                  MatrixView<T> out, Workspace&) {
    for (Index i = 0; i < d.rows; ++i) {
      const auto [a, b] = reciprocal(direction.lengths[i]);
      kernels<T>().add_scaled(out.row(i), keep, d.row(i), a, b * factor, d.cols);
    }
  }

  template <class T>
  static double norm(const ResolvedNorm&, ConstMatrixView<T> x, Workspace& workspace) {
    const auto rows = workspace.take<double>(x.rows);
    measure(x, rows.data());
    return *std::ranges::max_element(rows);
  }

 private:
  template <class T>
  static void measure(ConstMatrixView<T> x, double* rows) {
    for (Index i = 0; i < x.rows; ++i) rows[i] = l2_norm(x.row(i), x.cols);
  }
};

}  // namespace

template <>
const GeometryRules& rules<Geometry::RowL2>() {
  static constexpr GeometryRules all = rules_of<RowL2>();
  return all;
}

}  // namespace detail
}  // namespace normball
