#include "trainer/train/model_builder.h"

#include "normball/base/error.h"

namespace normball::trainer {
namespace {

ModelConfig gpt_config(const run::Config& config, const DataFacts& facts) {
  const auto& from = config.model;
  if (from.vocab < facts.vocabulary) {
    throw_invalid("build_model", "model.vocab is ", from.vocab, " but the data has tokens up to ",
                  facts.vocabulary - 1, "; set model.vocab=", facts.vocabulary, " or more");
  }
  return GptConfig{.vocabulary = from.vocab,
                   .layers = from.layers,
                   .heads = from.heads,
                   .width = from.width,
                   .context = from.context,
                   .rotary_base = from.rope_base};
}

ModelConfig cnn_config(const run::Config& config, const DataFacts& facts) {
  constexpr int views[] = {1, 2, 6};
  return CnnConfig{.channels = facts.channels,
                   .size = facts.size,
                   .classes = facts.classes,
                   .width = config.model.width_factor,
                   .output_scale = config.model.scaling_factor,
                   .label_smoothing = config.train.label_smoothing,
                   .views = views[config.eval.tta]};
}

ModelConfig mlp_config(const run::Config& config, const DataFacts& facts) {
  return MlpConfig{.channels = facts.channels,
                   .size = facts.size,
                   .hidden = config.model.hidden,
                   .classes = facts.classes,
                   .label_smoothing = config.train.label_smoothing};
}

}  // namespace

std::unique_ptr<Model> build_model(const run::Config& config, const DataFacts& facts) {
  const std::string& kind = config.model.kind;
  const bool wants_tokens = kind == "gpt";
  if (wants_tokens != (facts.unit == "tokens")) {
    throw_invalid("build_model", "model.kind is ", kind, ", which needs ",
                  wants_tokens ? "tokens (data.kind text or shards)" : "images", "; data.kind is ",
                  config.data.kind);
  }
  const auto described = wants_tokens    ? gpt_config(config, facts)
                         : kind == "cnn" ? cnn_config(config, facts)
                                         : mlp_config(config, facts);
  try {
    return make_model(described);
  } catch (const c10::Error& error) {  // its own text comes with a trace of the stack
    throw_invalid("build_model", "a ", kind,
                  " of this size cannot be made; choose a smaller [model]. ",
                  "LibTorch says: ", error.what_without_backtrace());
  }
}

}  // namespace normball::trainer
