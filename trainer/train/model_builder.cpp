#include "trainer/train/model_builder.h"

#include "normball/error.h"

namespace normball::trainer::train {
namespace {

models::ModelConfig gpt_config(const config::Config& config, const DataFacts& facts) {
  const auto& from = config.model;
  if (from.vocab < facts.vocabulary) {
    detail::invalid("build_model", "model.vocab is ", from.vocab, " but the data has tokens up to ",
                    facts.vocabulary - 1, "; set model.vocab=", facts.vocabulary, " or more");
  }
  return models::GptConfig{.vocabulary = from.vocab,
                           .layers = from.layers,
                           .heads = from.heads,
                           .width = from.width,
                           .context = from.context,
                           .rotary_base = from.rope_base};
}

models::ModelConfig cnn_config(const config::Config& config, const DataFacts& facts) {
  constexpr int views[] = {1, 2, 6};
  return models::CnnConfig{.channels = facts.channels,
                           .size = facts.size,
                           .classes = facts.classes,
                           .width = config.model.width_factor,
                           .output_scale = config.model.scaling_factor,
                           .label_smoothing = config.train.label_smoothing,
                           .views = views[config.eval.tta]};
}

models::ModelConfig mlp_config(const config::Config& config, const DataFacts& facts) {
  return models::MlpConfig{.channels = facts.channels,
                           .size = facts.size,
                           .hidden = config.model.hidden,
                           .classes = facts.classes,
                           .label_smoothing = config.train.label_smoothing};
}

}  // namespace

std::unique_ptr<models::Model> build_model(const config::Config& config, const DataFacts& facts) {
  const std::string& kind = config.model.kind;
  const bool wants_tokens = kind == "gpt";
  if (wants_tokens != (facts.unit == "tokens")) {
    detail::invalid("build_model", "model.kind is ", kind, ", which needs ",
                    wants_tokens ? "tokens (data.kind text or shards)" : "images",
                    "; data.kind is ", config.data.kind);
  }
  const auto described = wants_tokens    ? gpt_config(config, facts)
                         : kind == "cnn" ? cnn_config(config, facts)
                                         : mlp_config(config, facts);
  try {
    return models::make_model(described);
  } catch (const c10::Error& error) {  // its own text comes with a trace of the stack
    detail::invalid("build_model", "a ", kind,
                    " of this size cannot be made; choose a smaller [model]. ",
                    "LibTorch says: ", error.what_without_backtrace());
  }
}

}  // namespace normball::trainer::train
