// A model from its configuration. docs/models.md has all that a new one needs.
#pragma once

#include <memory>
#include <variant>

#include "trainer/models/cnn.h"
#include "trainer/models/gpt.h"
#include "trainer/models/mlp.h"

namespace normball::trainer::models {

using ModelConfig = std::variant<GptConfig, CnnConfig, MlpConfig>;

// Its weights are zero until it is initialized.
std::unique_ptr<Model> make_model(const ModelConfig& config);

}  // namespace normball::trainer::models
