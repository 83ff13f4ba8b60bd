#include "trainer/config/kinds.h"

#include <algorithm>

#include "normball/base/error.h"
#include "trainer/config/config_error.h"

namespace normball::trainer::config {
namespace {

void validate_gpt(const Config& config, std::string_view where) {
  const auto& model = config.model;
  if (model.width % model.heads != 0 || model.head_dim() % 2 != 0) {
    wrong(where, "model.width = ", model.width,
          " must be an even multiple of model.heads = ", model.heads,
          " (rotary embeddings turn pairs)");
  }
}

void validate_vit(const Config& config, std::string_view where) {
  const auto& model = config.model;
  if (model.width % model.heads != 0) {
    wrong(where, "model.width = ", model.width,
          " must be a multiple of model.heads = ", model.heads);
  }
  if (config.data.kind == "folder" && config.data.size % model.patch != 0) {
    wrong(where, "data.size = ", config.data.size,
          " must be a multiple of model.patch = ", model.patch);
  }
}

void validate_mlp(const Config& config, std::string_view where) {
  if (config.model.hidden.size() > 1000) {
    wrong(where, "model.hidden has ", config.model.hidden.size(),
          " layers; at most 1000 are allowed");
  }
}

constexpr ModelKind models[] = {{"gpt", "tokens", validate_gpt},
                                {"cnn", "images", nullptr},
                                {"mlp", "images", validate_mlp},
                                {"vit", "images", validate_vit}};
constexpr DataKind data[] = {{"fashion-mnist", "images", 28},
                             {"cifar10", "images", 32},
                             {"folder", "images", 0},
                             {"shards", "tokens", 0},
                             {"text", "tokens", 0}};

template <class Kind>
const Kind& named(std::span<const Kind> kinds, std::string_view name) {
  const auto found = std::ranges::find(kinds, name, &Kind::name);
  if (found == kinds.end()) throw_invalid("config", "unknown kind '", name, "'");
  return *found;
}

}  // namespace

std::span<const ModelKind> model_kinds() { return models; }
std::span<const DataKind> data_kinds() { return data; }
const ModelKind& model_kind(const Config& config) {
  return named(model_kinds(), config.model.kind);
}
const DataKind& data_kind(const Config& config) { return named(data_kinds(), config.data.kind); }

}  // namespace normball::trainer::config
