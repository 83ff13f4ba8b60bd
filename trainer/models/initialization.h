// Where weights start.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "normball/product_norm.h"
#include "normball/random.h"
#include "trainer/models/model.h"

namespace normball::trainer::models {

// Puts every weight on its norm's sphere of the layer's radius and biases at 0; one layer for each
// parameter, in order. Parameters that start at zero do so, unless `all`.
void initialize_on_spheres(const Model& model, const std::vector<Layer>& layers, Random& random,
                           bool all = false);

void set_zero(torch::Tensor tensor);
void set_uniform(torch::Tensor tensor, double bound, Random& random);  // in (−bound, bound)

}  // namespace normball::trainer::models
