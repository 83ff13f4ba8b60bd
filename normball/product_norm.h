// A norm of the whole model x = (W_1 ... W_D) from a norm and a radius for each layer.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "normball/norms.h"

namespace normball {

struct Layer {
  std::string name = {};
  Shape shape = {};
  Norm norm = Auto{};
  double radius = 1;
};

// With n_l = ‖W_l‖_l / r_l and a_l = r_l ‖d_l‖_l*:
//   Max   ‖x‖ = max n_l    ‖d‖* = Σ a_l      the LMO is r_l lmo_l(d_l) in every layer
//   Sum   ‖x‖ = Σ n_l      ‖d‖* = max a_l    only the layer of the largest a_l moves
//   L2    ‖x‖ = ‖n‖₂       ‖d‖* = ‖a‖₂       layer l moves in proportion to a_l / ‖a‖₂
// (The paper's text has 1/r_l in the dual norm of Max; its table and algorithms have r_l.)
enum class Combination { Max, Sum, L2 };

// ‖x‖ from the layers' n_l.
double combine_norms(Combination combination, std::span<const double> norms);

// ‖d‖* from the layers' a_l; weights[l] <- the share of r_l lmo_l(d_l) in the model's LMO.
double combine_duals(Combination combination, std::span<const double> duals,
                     std::span<double> weights);

// Throws std::invalid_argument, naming the layer, unless the radius is positive and finite and the
// shape valid.
void validate(const Layer& layer);
// Throws for a constrained method where the direction is no LMO's: clipped singular values.
void require_lmo(std::string_view where, std::string_view layer, const ResolvedNorm& norm);

// The product norm on lists of matrices, one for each layer.
class ProductNorm {
 public:
  explicit ProductNorm(std::vector<Layer> layers, Combination combination = Combination::Max);

  template <class T>
  double norm(std::span<const MatrixView<T>> x) const;

  template <class T>
  double dual_norm(std::span<const MatrixView<T>> d) const;

  // out <- lmo(d); returns -<d, lmo(d)>.
  template <class T>
  double lmo(std::span<const MatrixView<T>> d, std::span<const MatrixView<T>> out) const;

  const std::vector<Layer>& layers() const { return layers_; }

 private:
  std::vector<Layer> layers_;
  Combination combination_;
};

}  // namespace normball
