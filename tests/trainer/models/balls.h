// Layers for a model's parameters, by their roles.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "normball/product_norm.h"
#include "trainer/models/model.h"

namespace normball::trainer::models {

struct Ball {
  Norm norm = Auto{};
  double radius = 1;
};
using Balls = std::map<std::string, Ball>;

inline std::vector<Layer> layers_of(const Model& model, const Balls& balls) {
  std::vector<Layer> layers;
  for (const auto& parameter : model.parameters()) {
    const Ball& ball = balls.at(parameter.role);
    Layer& layer = layers.emplace_back();
    layer.name = parameter.name;
    layer.shape = flatten(parameter.tensor.sizes().vec());
    layer.norm = ball.norm;
    layer.radius = ball.radius;
  }
  return layers;
}

}  // namespace normball::trainer::models
