// Where weights start.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "normball/product_norm.h"
#include "normball/random.h"
#include "trainer/models/model.h"

namespace normball::trainer {

// The norm and radius of a layer by its role ("input", "hidden", "output", "bias").
struct Ball {
  Norm norm = Auto{};
  double radius = 1;
};
using Balls = std::map<std::string, Ball>;

// One layer for each of the model's parameters, in their order. Throws for a role without a ball.
std::vector<Layer> layers_of(const Model& model, const Balls& balls);

// Puts every weight on its norm's sphere of the layer's radius and biases at 0. Parameters that
// start at zero do so, unless `all`.
void initialize_on_spheres(const Model& model, const std::vector<Layer>& layers, Random& random,
                           bool all = false);

void set_zero(torch::Tensor tensor);
void set_uniform(torch::Tensor tensor, double bound, Random& random);  // in (−bound, bound)

}  // namespace normball::trainer
