// The one place that knows all models. A new one (the ViT) is a header and source beside the
// others, an alternative here and nothing else.
#pragma once

#include <memory>
#include <variant>

#include "trainer/models/cnn.h"
#include "trainer/models/gpt.h"
#include "trainer/models/mlp.h"

namespace normball::trainer {

using ModelConfig = std::variant<GptConfig, CnnConfig, MlpConfig>;

// Its weights are zero until it is initialized.
std::unique_ptr<Model> make_model(const ModelConfig& config);

}  // namespace normball::trainer
