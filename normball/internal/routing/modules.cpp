// What a parameter is, from the types of the modules that hold it.
#include <algorithm>
#include <array>
#include <map>

#include "normball/internal/routing/facts.h"
#include "normball/internal/routing/words.h"

namespace normball {
namespace {

struct ModuleType {
  std::string_view name;
  Kind weight;         // of its parameters that are not biases
  bool whole = false;  // what is inside belongs to it: no head sits there
};

constexpr std::array<ModuleType, 33> module_types = {{
    {"Linear", Kind::Linear},
    {"Bilinear", Kind::Linear},
    {"Embedding", Kind::Embedding},
    {"EmbeddingBag", Kind::Embedding},
    {"Conv1d", Kind::Conv},
    {"Conv2d", Kind::Conv},
    {"Conv3d", Kind::Conv},
    {"ConvTranspose1d", Kind::ConvTranspose},
    {"ConvTranspose2d", Kind::ConvTranspose},
    {"ConvTranspose3d", Kind::ConvTranspose},
    {"LayerNorm", Kind::Gain},
    {"RMSNorm", Kind::Gain},
    {"GroupNorm", Kind::Gain},
    {"BatchNorm1d", Kind::Gain},
    {"BatchNorm2d", Kind::Gain},
    {"BatchNorm3d", Kind::Gain},
    {"SyncBatchNorm", Kind::Gain},
    {"InstanceNorm1d", Kind::Gain},
    {"InstanceNorm2d", Kind::Gain},
    {"InstanceNorm3d", Kind::Gain},
    {"RNN", Kind::Hidden, true},
    {"LSTM", Kind::Hidden, true},
    {"GRU", Kind::Hidden, true},
    {"RNNCell", Kind::Hidden, true},
    {"LSTMCell", Kind::Hidden, true},
    {"GRUCell", Kind::Hidden, true},
    {"MultiheadAttention", Kind::Hidden, true},
    {"Transformer", Kind::Hidden, true},
    {"TransformerEncoder", Kind::Hidden, true},
    {"TransformerDecoder", Kind::Hidden, true},
    {"TransformerEncoderLayer", Kind::Hidden, true},
    {"TransformerDecoderLayer", Kind::Hidden, true},
    {"ParametrizationList", Kind::Unknown},
}};

const ModuleType* find_type(std::string_view name) {
  const auto found = std::ranges::find(module_types, name, &ModuleType::name);
  return found == module_types.end() ? nullptr : &*found;
}

// The module and the name of a parameter in it. PyTorch keeps a reparametrized weight of `conv` as
// conv.parametrizations.weight.original, or .original0 and .original1 (gain and direction of weight
// normalization).
struct Place {
  const ModuleType* type;
  std::string leaf;
};

Place place_of(const ModuleParameter& parameter) {
  const auto path = detail::split_at(parameter.name, ".");
  const auto& types = parameter.types;
  if (types.empty()) return {nullptr, path.back()};
  if (types.back() != "ParametrizationList" || types.size() < 3 || path.size() < 3) {
    return {find_type(types.back()), path.back()};
  }
  std::string leaf = path[path.size() - 2];
  if (path.back() == "original0") leaf += "_g";
  return {find_type(types[types.size() - 3]), leaf};
}

Kind kind_of(const ModuleParameter& parameter) {
  const auto [type, leaf] = place_of(parameter);
  if (type == nullptr) return Kind::Unknown;
  if (leaf.starts_with("bias") || leaf.ends_with("bias")) return Kind::Bias;
  if (leaf == "weight_g") return Kind::Gain;
  // A module may have more parameters than its type; recurrent ones and attention have many names.
  const bool own = type->whole ? leaf.find("weight") != std::string::npos
                               : leaf == "weight" || leaf == "weight_v" || leaf == "weight_orig";
  if (!own) return Kind::Unknown;
  const auto& dimensions = parameter.dimensions;
  switch (type->weight) {
    case Kind::Linear: {
      const bool inside = std::ranges::any_of(parameter.types, [](const std::string& around) {
        const ModuleType* const found = find_type(around);
        return found != nullptr && found->whole;
      });
      return inside ? Kind::Hidden : Kind::Linear;
    }
    case Kind::Embedding:  // a position table is an Embedding only in type
      return detail::guess_kind(parameter.name, dimensions) == Kind::Position ? Kind::Position
                                                                              : Kind::Embedding;
    case Kind::Conv:
    case Kind::ConvTranspose:
      return parameter.groups > 1 && dimensions.size() > 1 && dimensions[1] == 1 ? Kind::Depthwise
                                                                                 : type->weight;
    default:
      return type->weight;
  }
}

}  // namespace

bool is_module_type(std::string_view type) { return find_type(type) != nullptr; }

std::vector<Kind> kinds_of(std::span<const ModuleParameter> parameters) {
  std::vector<Kind> kinds;
  std::map<const void*, size_t> first;
  for (const auto& parameter : parameters) {
    Kind kind = kind_of(parameter);
    if (parameter.identity != nullptr) {
      const auto [found, is_new] = first.emplace(parameter.identity, kinds.size());
      if (!is_new) {
        // An embedding whose weight another module uses is the output head as well.
        Kind& before = kinds[found->second];
        const bool embeds = before == Kind::Embedding || kind == Kind::Embedding;
        if (embeds && before != kind) before = Kind::Tied;
        if (before == Kind::Unknown) before = kind;
        kind = Kind::Alias;
      }
    }
    kinds.push_back(kind);
  }
  return kinds;
}

}  // namespace normball
