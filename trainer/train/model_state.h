// Tensors to and from checkpoints.
#pragma once

#include <vector>

#include "trainer/models/model.h"
#include "trainer/optim/training_optimizer.h"
#include "trainer/run/safetensors.h"

namespace normball::trainer::train {

// Parameters and buffers, in place.
std::vector<optim::NamedTensor> model_state(const models::Model& model);

// Views of the tensors, which must live as long.
std::vector<run::TensorView> views_of(const std::vector<optim::NamedTensor>& tensors);

// Checks names, types and shapes of all first, then copies: on an error nothing has changed. `what`
// names the tensors in errors.
void load_tensors(const run::SafetensorsFile& file, const std::vector<optim::NamedTensor>& into,
                  std::string_view what);

}  // namespace normball::trainer::train
