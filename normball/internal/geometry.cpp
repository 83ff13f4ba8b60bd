#include "normball/internal/geometry.h"

namespace normball::detail {

const GeometryRules& rules(Geometry geometry) {
  switch (geometry) {
    case Geometry::Frobenius:
      return frobenius_geometry;
    case Geometry::MaxAbs:
      return max_abs_geometry;
    case Geometry::RowL2:
      return row_l2_geometry;
    case Geometry::ColL2:
      return col_l2_geometry;
    case Geometry::Operator:
      return operator_geometry;
    case Geometry::Oracle:
      return oracle_geometry;
  }
  return oracle_geometry;
}

}  // namespace normball::detail
