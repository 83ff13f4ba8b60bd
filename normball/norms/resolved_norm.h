// A norm on a given shape. Every norm is one of a few geometries times a number:
//   ‖x‖ = ‖x‖_geometry / scale,  lmo(d) = scale lmo_geometry(d),  ‖d‖* = scale ‖d‖*_geometry.
#pragma once

#include <memory>

#include "normball/polar.h"
#include "normball/shape.h"

namespace normball {

class NormOracle;
struct TextCall;

enum class Geometry {
  Frobenius,  // ‖x‖₂; dual ‖d‖₂
  MaxAbs,     // max |x_ij|; dual Σ |d_ij|
  RowL2,      // max_i ‖x_i‖₂; dual Σ_i ‖d_i‖₂
  ColL2,      // the same for columns
  Operator,   // largest singular value; dual Σ sigma
  Oracle,     // a NormOracle's; the last
};

struct ResolvedNorm {
  Geometry geometry = Geometry::Frobenius;
  double scale = 1;
  PolarSolver solver = ExactPolar{};                   // of Operator
  std::shared_ptr<const NormOracle> oracle = nullptr;  // of Oracle
};

}  // namespace normball
