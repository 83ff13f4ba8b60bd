#include "normball_torch/module_kinds.h"

#include <map>

namespace normball::optim {
namespace {

namespace nn = ::torch::nn;

template <class... Types>
bool is_any(const nn::Module& module) {
  return ((dynamic_cast<const Types*>(&module) != nullptr) || ...);
}

template <class Conv>
std::string conv_kind(const Conv& conv) {
  const auto& options = conv.options;
  return options.groups() > 1 && options.groups() == options.in_channels() ? "depthwise" : "conv";
}

// Of the module's own weight; Linear is left to routing, which knows heads by their names.
std::string weight_kind(const nn::Module& module) {
  if (const auto* conv = dynamic_cast<const nn::Conv1dImpl*>(&module)) return conv_kind(*conv);
  if (const auto* conv = dynamic_cast<const nn::Conv2dImpl*>(&module)) return conv_kind(*conv);
  if (const auto* conv = dynamic_cast<const nn::Conv3dImpl*>(&module)) return conv_kind(*conv);
  if (is_any<nn::ConvTranspose1dImpl, nn::ConvTranspose2dImpl, nn::ConvTranspose3dImpl>(module)) {
    return "conv_transpose";
  }
  if (is_any<nn::LayerNormImpl, nn::GroupNormImpl, nn::BatchNorm1dImpl, nn::BatchNorm2dImpl,
             nn::BatchNorm3dImpl, nn::InstanceNorm1dImpl, nn::InstanceNorm2dImpl,
             nn::InstanceNorm3dImpl>(module)) {
    return "norm";
  }
  return "unknown";
}

}  // namespace

std::vector<std::string> kinds_of(const nn::Module& module) {
  // By name, since tied weights are one tensor with two of them.
  std::map<std::string, std::string> by_name;
  const auto visit = [&](const std::string& prefix, const nn::Module& own) {
    for (const auto& parameter : own.named_parameters(/*recurse=*/false)) {
      const std::string name = prefix.empty() ? parameter.key() : prefix + "." + parameter.key();
      by_name[name] = parameter.key() == "bias"     ? "bias"
                      : parameter.key() == "weight" ? weight_kind(own)
                                                    : "unknown";
    }
  };
  visit("", module);
  for (const auto& child : module.named_modules("", /*include_self=*/false)) {
    visit(child.key(), *child.value());
  }
  std::vector<std::string> kinds;
  for (const auto& parameter : module.named_parameters()) kinds.push_back(by_name[parameter.key()]);
  return kinds;
}

}  // namespace normball::optim
