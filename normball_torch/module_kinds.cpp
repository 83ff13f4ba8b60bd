#include "normball_torch/module_kinds.h"

#include <array>
#include <map>

#include "normball/routing.h"

namespace normball::optim {
namespace {

namespace nn = ::torch::nn;

template <class Impl>
bool is(const nn::Module& module) {
  return dynamic_cast<const Impl*>(&module) != nullptr;
}

// The names that kinds_of() in the core knows; "" for all other modules.
std::string type_of(const nn::Module& module) {
  struct Type {
    const char* name;
    bool (*is)(const nn::Module&);
  };
#define NORMBALL_TYPE(name) \
  Type { #name, is < nn::name##Impl> }
  static constexpr std::array types = {
      NORMBALL_TYPE(Linear),
      NORMBALL_TYPE(Bilinear),
      NORMBALL_TYPE(Embedding),
      NORMBALL_TYPE(EmbeddingBag),
      NORMBALL_TYPE(Conv1d),
      NORMBALL_TYPE(Conv2d),
      NORMBALL_TYPE(Conv3d),
      NORMBALL_TYPE(ConvTranspose1d),
      NORMBALL_TYPE(ConvTranspose2d),
      NORMBALL_TYPE(ConvTranspose3d),
      NORMBALL_TYPE(LayerNorm),
      NORMBALL_TYPE(GroupNorm),
      NORMBALL_TYPE(BatchNorm1d),
      NORMBALL_TYPE(BatchNorm2d),
      NORMBALL_TYPE(BatchNorm3d),
      NORMBALL_TYPE(InstanceNorm1d),
      NORMBALL_TYPE(InstanceNorm2d),
      NORMBALL_TYPE(InstanceNorm3d),
      NORMBALL_TYPE(RNN),
      NORMBALL_TYPE(LSTM),
      NORMBALL_TYPE(GRU),
      NORMBALL_TYPE(RNNCell),
      NORMBALL_TYPE(LSTMCell),
      NORMBALL_TYPE(GRUCell),
      NORMBALL_TYPE(MultiheadAttention),
      NORMBALL_TYPE(Transformer),
      NORMBALL_TYPE(TransformerEncoder),
      NORMBALL_TYPE(TransformerDecoder),
      NORMBALL_TYPE(TransformerEncoderLayer),
      NORMBALL_TYPE(TransformerDecoderLayer),
  };
#undef NORMBALL_TYPE
  for (const auto& type : types) {
    if (type.is(module)) return type.name;
  }
  return "";
}

template <class... Convs>
Index groups_of(const nn::Module& module) {
  Index groups = 1;
  const auto ask = [&](const auto* conv) {
    if (conv != nullptr) groups = conv->options.groups();
  };
  (ask(dynamic_cast<const Convs*>(&module)), ...);
  return groups;
}

// The modules from the root to the one at `path`, of all modules by their paths.
std::vector<std::string> types_around(const std::map<std::string, std::string>& types,
                                      const std::string& path) {
  std::vector<std::string> around = {types.at("")};
  for (size_t dot = 0; !path.empty() && dot != std::string::npos;) {
    dot = path.find('.', dot + 1);
    around.push_back(types.at(path.substr(0, dot)));
  }
  return around;
}

}  // namespace

std::vector<std::string> kinds_of(const nn::Module& module) {
  std::map<std::string, std::string> types = {{"", type_of(module)}};
  std::map<std::string, Index> groups = {};
  const auto look_at = [&](const std::string& path, const nn::Module& own) {
    types[path] = type_of(own);
    groups[path] =
        groups_of<nn::Conv1dImpl, nn::Conv2dImpl, nn::Conv3dImpl, nn::ConvTranspose1dImpl,
                  nn::ConvTranspose2dImpl, nn::ConvTranspose3dImpl>(own);
  };
  look_at("", module);
  for (const auto& child : module.named_modules("", /*include_self=*/false)) {
    look_at(child.key(), *child.value());
  }
  std::vector<ModuleParameter> parameters;
  for (const auto& item : module.named_parameters()) {
    const size_t dot = item.key().rfind('.');
    const std::string path = dot == std::string::npos ? "" : item.key().substr(0, dot);
    parameters.push_back({.name = item.key(),
                          .types = types_around(types, path),
                          .dimensions = item.value().sizes().vec(),
                          .groups = groups.at(path),
                          .identity = item.value().unsafeGetTensorImpl()});
  }
  std::vector<std::string> kinds;
  for (const Kind kind : normball::kinds_of(parameters)) kinds.push_back(to_string(kind));
  return kinds;
}

}  // namespace normball::optim
