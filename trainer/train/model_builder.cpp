#include "trainer/train/model_builder.h"

#include <algorithm>
#include <iterator>

#include "normball/base/error.h"
#include "trainer/config/kinds.h"
#include "trainer/models/cnn.h"
#include "trainer/models/gpt.h"
#include "trainer/models/mlp.h"
#include "trainer/models/vit.h"

namespace normball::trainer::train {
namespace {

std::unique_ptr<models::Model> build_gpt(const config::Config& config, const DataFacts& facts) {
  const auto& from = config.model;
  if (from.vocab < facts.vocabulary) {
    throw_invalid("build_model", "model.vocab is ", from.vocab, " but the data has tokens up to ",
                  facts.vocabulary - 1, "; set model.vocab=", facts.vocabulary, " or more");
  }
  return std::make_unique<models::Gpt>(models::GptConfig{.vocabulary = from.vocab,
                                                         .layers = from.layers,
                                                         .heads = from.heads,
                                                         .width = from.width,
                                                         .context = from.context,
                                                         .rotary_base = from.rope_base});
}

std::unique_ptr<models::Model> build_cnn(const config::Config& config, const DataFacts& facts) {
  constexpr int views[] = {1, 2, 6};
  return std::make_unique<models::Cnn>(
      models::CnnConfig{.channels = facts.channels,
                        .size = facts.size,
                        .classes = facts.classes,
                        .width = config.model.width_factor,
                        .output_scale = config.model.scaling_factor,
                        .label_smoothing = config.train.label_smoothing,
                        .views = views[config.eval.tta]});
}

std::unique_ptr<models::Model> build_mlp(const config::Config& config, const DataFacts& facts) {
  return std::make_unique<models::Mlp>(
      models::MlpConfig{.channels = facts.channels,
                        .size = facts.size,
                        .hidden = config.model.hidden,
                        .classes = facts.classes,
                        .label_smoothing = config.train.label_smoothing});
}

std::unique_ptr<models::Model> build_vit(const config::Config& config, const DataFacts& facts) {
  const auto& from = config.model;
  if (facts.size % from.patch != 0) {
    throw_invalid("build_model", "model.patch is ", from.patch, " but the images have ", facts.size,
                  " pixels in height and width; set a patch that divides them");
  }
  return std::make_unique<models::Vit>(
      models::VitConfig{.channels = facts.channels,
                        .size = facts.size,
                        .patch = from.patch,
                        .classes = facts.classes,
                        .layers = from.layers,
                        .heads = from.heads,
                        .width = from.width,
                        .drop = from.drop,
                        .layer_norm = from.norm == "layer",
                        .scaled_gelu = from.gelu == "scaled",
                        .label_smoothing = config.train.label_smoothing});
}

struct Builder {
  std::string_view kind;
  std::unique_ptr<models::Model> (*build)(const config::Config&, const DataFacts&);
};
constexpr Builder builders[] = {
    {"gpt", build_gpt}, {"cnn", build_cnn}, {"mlp", build_mlp}, {"vit", build_vit}};

}  // namespace

std::unique_ptr<models::Model> build_model(const config::Config& config, const DataFacts& facts) {
  const config::ModelKind& kind = config::model_kind(config);
  if (kind.unit != facts.unit) {
    throw_invalid("build_model", "model.kind is ", kind.name, ", which needs ",
                  kind.unit == "tokens" ? "tokens (data.kind text or shards)" : "images",
                  "; data.kind is ", config.data.kind);
  }
  const auto* builder = std::ranges::find(builders, kind.name, &Builder::kind);
  if (builder == std::end(builders)) {
    throw_invalid("build_model", "no builder for a model of the kind ", kind.name);
  }
  try {
    return builder->build(config, facts);
  } catch (const c10::Error& error) {  // its own text comes with a trace of the stack
    throw_invalid("build_model", "a ", kind.name,
                  " of this size cannot be created; choose a smaller [model]. ",
                  "LibTorch says: ", error.what_without_backtrace());
  }
}

}  // namespace normball::trainer::train
