#include "normball/product_norm.h"

#include "testing.h"

namespace normball::testing {
namespace {

struct Model {
  std::vector<Layer> layers = {
      {.name = "a", .shape = {.rows = 4, .cols = 6}, .norm = Spectral{}, .radius = 3},
      {.name = "b", .shape = {.rows = 6, .cols = 5}, .norm = Sign{}, .radius = 0.5},
      {.name = "c", .shape = {.rows = 3, .cols = 7}, .norm = RowNorm{}, .radius = 2},
      {.name = "d", .shape = {.rows = 5, .cols = 1}, .norm = Rms{}, .radius = 1}};
  std::vector<Matrix<double>> matrices = {};
  std::vector<MatrixView<double>> views = {};

  explicit Model(std::uint64_t seed) {
    Random random(seed);
    for (const auto& layer : layers) {
      matrices.push_back(gaussian<double>(layer.shape.rows, layer.shape.cols, random));
    }
    for (auto& matrix : matrices) views.push_back(matrix.view());
  }
  std::span<const MatrixView<double>> span() const { return views; }
};

double pairing(const Model& a, const Model& b) {
  double sum = 0;
  for (size_t l = 0; l < a.matrices.size(); ++l) sum += inner(a.matrices[l], b.matrices[l]);
  return sum;
}

TEST(ProductNorm, DualOfMaxIsTheSumWithRadiiNotTheirInverses) {
  const Model d(1);
  double expected = 0;
  for (size_t l = 0; l < d.layers.size(); ++l) {
    expected += d.layers[l].radius * dual_norm(d.layers[l].norm, d.views[l], &d.layers[l].shape);
  }
  EXPECT_NEAR(ProductNorm(d.layers).dual_norm(d.span()), expected, 1e-12 * expected);
}

TEST(ProductNorm, LmoIsFeasibleAndAttainsTheDualNormInEveryCombination) {
  for (const auto combination : {Combination::Max, Combination::Sum, Combination::L2}) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const Model d(seed);
      Model u(seed + 1000);
      const ProductNorm product(d.layers, combination);
      const double value = product.lmo(d.span(), u.span());
      const double dual = product.dual_norm(d.span());
      EXPECT_NEAR(product.norm(u.span()), 1, 1e-12);
      EXPECT_NEAR(value, dual, 1e-11 * dual);
      EXPECT_NEAR(-pairing(d, u), dual, 1e-11 * dual);
      // No other point of the ball does better (Hölder).
      Model other(seed + 5000);
      const double size = product.norm(other.span());
      EXPECT_LE(std::abs(pairing(d, other)), dual * size * (1 + 1e-12));
    }
  }
}

TEST(ProductNorm, ZeroMapsToZero) {
  for (const auto combination : {Combination::Max, Combination::Sum, Combination::L2}) {
    Model d(1), u(2);
    for (auto& matrix : d.matrices) std::fill(matrix.data.begin(), matrix.data.end(), 0.0);
    EXPECT_EQ(ProductNorm(d.layers, combination).lmo(d.span(), u.span()), 0);
    for (const auto& matrix : u.matrices) {
      for (const double entry : matrix.data) EXPECT_EQ(entry, 0);
    }
  }
}

TEST(ProductNormErrors, NameLayerAndValue) {
  Model model(1);
  const ProductNorm product(model.layers);
  expect_invalid([&] { product.norm(model.span().first(2)); }, {"[ProductNorm::norm]", "2", "4"});
  model.layers[1].radius = -1;
  expect_invalid([&] { ProductNorm{model.layers}; }, {"[Layer]", "'b'", "positive", "-1"});
}

}  // namespace
}  // namespace normball::testing
