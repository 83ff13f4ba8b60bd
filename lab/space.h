// A space of layers with a product norm ‖x‖ = max_l ‖W_l‖_l / r_l, and the constants of that norm
// that the bounds need (docs/lab.md, section 1).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "normball/norms.h"
#include "normball/product_norm.h"
#include "normball/random.h"

namespace normball::lab {

using Point = std::vector<double>;  // all layers, row-major, one after the other

double inner(const Point& a, const Point& b);
double euclidean_norm(const Point& a);
Point difference(const Point& a, const Point& b);

class Space {
 public:
  Space(std::string name, std::vector<Layer> layers);

  const std::string& name() const { return name_; }
  const std::vector<Layer>& layers() const { return layers_; }
  size_t size() const { return size_; }
  size_t offset(size_t layer) const { return offsets_[layer]; }

  std::vector<MatrixView<double>> views(Point& x) const;
  double norm(const Point& x) const;
  double dual_norm(const Point& d) const;
  // direction <- -lmo(d), a point with ‖·‖ <= 1 and <d, direction> = ‖d‖*.
  void ascent_direction(const Point& d, Point& direction) const;
  // A random point of norm 1.
  Point sphere(Random& random) const;

  // The unit ball is the product over layers of {‖W_l‖_geometry <= unit(l)}: unit = scale r.
  double unit(size_t layer) const;
  double largest_unit() const;
  Geometry geometry(size_t layer) const { return norms_[layer].geometry; }
  bool equal_radii() const;  // every radius is 1

  double zeta() const;       // max ‖x‖* / ‖x‖₂ = max ‖u‖₂ over the unit ball
  double zeta_star() const;  // max ‖x‖₂ / ‖x‖*

 private:
  std::string name_;
  std::vector<Layer> layers_;
  std::vector<ResolvedNorm> norms_;
  std::vector<size_t> offsets_;
  size_t size_ = 0;
};

// For one layer's unit ball of a geometry on m x n matrices:
double square_width(Geometry geometry, const Shape& shape);    // max ‖U‖_F²
double operator_width(Geometry geometry, const Shape& shape);  // max largest singular value
// max Σ_ij c_i u_ij², one c_i >= 0 for each row.
double diagonal_curvature(Geometry geometry, const Shape& shape, std::span<const double> c);

// "euclidean", "sign", "spectral", "row" on one matrix, "product" on three layers of different
// norms and radii; or any text that parse_norm reads, on one matrix.
Space make_space(std::string_view name);
std::span<const std::string_view> space_names();

}  // namespace normball::lab
