// A small model's weights and gradients for tests of the optimizer.
#pragma once

#include "testing.h"

namespace normball::testing {

template <class T>
struct Model {
  std::vector<Layer> layers;
  std::vector<Matrix<T>> weights = {};
  std::vector<Matrix<T>> gradients = {};

  explicit Model(std::vector<Layer> layers_, std::uint64_t seed = 1) : layers(std::move(layers_)) {
    Random random(seed);
    for (const auto& layer : layers) {
      weights.push_back(gaussian<T>(layer.shape.rows, layer.shape.cols, random));
      gradients.push_back(gaussian<T>(layer.shape.rows, layer.shape.cols, random));
    }
  }

  void new_gradients(Random& random, double scale = 1) {
    for (auto& gradient : gradients) {
      for (auto& entry : gradient.data) entry = static_cast<T>(scale * random.normal());
    }
  }

  // Random weights of product norm at most 1.
  void move_into_ball(Random& random) {
    for (size_t l = 0; l < layers.size(); ++l) {
      const double size = norm(layers[l].norm, weights[l].view(), &layers[l].shape);
      const double factor = layers[l].radius * random.uniform() / size;
      for (auto& entry : weights[l].data) entry = static_cast<T>(entry * factor);
    }
  }

  std::vector<Parameter<T>> parameters() {
    std::vector<Parameter<T>> result;
    for (size_t l = 0; l < layers.size(); ++l) {
      result.push_back({weights[l].view(), gradients[l].view()});
    }
    return result;
  }

  std::vector<MatrixView<T>> weight_views() {
    std::vector<MatrixView<T>> views;
    for (auto& weight : weights) views.push_back(weight.view());
    return views;
  }

  double product_norm() {
    const auto views = weight_views();
    return ProductNorm(layers).norm(std::span<const MatrixView<T>>(views));
  }
};

// x - factor y
inline Matrix<double> minus(const Matrix<double>& x, double factor, const Matrix<double>& y) {
  Matrix<double> result = x;
  for (size_t i = 0; i < x.data.size(); ++i) result.data[i] -= factor * y.data[i];
  return result;
}

// One layer of every geometry.
inline std::vector<Layer> every_norm() {
  const std::vector<Index> conv = {6, 2, 3, 3}, bias = {9};
  return {{.name = "spectral", .shape = {.rows = 8, .cols = 12}, .norm = Spectral{}, .radius = 3},
          {.name = "conv", .shape = flatten(conv), .norm = Spectral{}, .radius = 5},
          {.name = "sign", .shape = {.rows = 7, .cols = 5}, .norm = Sign{}, .radius = 20},
          {.name = "row", .shape = {.rows = 6, .cols = 4}, .norm = RowNorm{}, .radius = 2},
          {.name = "col", .shape = {.rows = 5, .cols = 9}, .norm = ColNorm{}, .radius = 0.5},
          {.name = "euclidean", .shape = {.rows = 4, .cols = 3}, .norm = Euclidean{}, .radius = 1},
          {.name = "bias", .shape = flatten(bias), .norm = Rms{}, .radius = 1}};
}

inline std::vector<Layer> one_layer(Index rows, Index cols, const Norm& norm, double radius = 1) {
  return {{.name = "w", .shape = {.rows = rows, .cols = cols}, .norm = norm, .radius = radius}};
}

}  // namespace normball::testing
