#include "trainer/models/make_model.h"

namespace normball::trainer::models {
namespace {

std::unique_ptr<Model> make(const GptConfig& config) { return std::make_unique<Gpt>(config); }
std::unique_ptr<Model> make(const CnnConfig& config) { return std::make_unique<Cnn>(config); }
std::unique_ptr<Model> make(const MlpConfig& config) { return std::make_unique<Mlp>(config); }

}  // namespace

std::unique_ptr<Model> make_model(const ModelConfig& config) {
  return std::visit([](const auto& alternative) { return make(alternative); }, config);
}

}  // namespace normball::trainer::models
