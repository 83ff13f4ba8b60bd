#include "trainer/models/mlp.h"

#include <cmath>
#include <numbers>
#include <string>

#include "normball/error.h"
#include "trainer/models/initialization.h"

namespace normball::trainer::models {

Mlp::Mlp(const MlpConfig& config) : config_(config) {
  if (config.channels < 1 || config.size < 1 || config.classes < 1) {
    detail::invalid("Mlp", config.channels, " channels, size ", config.size, " and ",
                    config.classes, " classes; all must be at least 1");
  }
  if (!(config.label_smoothing >= 0 && config.label_smoothing < 1)) {
    detail::invalid("Mlp", "label_smoothing must be in [0, 1), got ", config.label_smoothing);
  }
  std::vector<std::int64_t> widths = config.hidden;
  widths.push_back(config.classes);
  std::int64_t in = config.channels * config.size * config.size;
  for (size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] < 1) detail::invalid("Mlp", "hidden width ", widths[i], "; must be at least 1");
    const std::string prefix = "layers." + std::to_string(i) + ".";
    const char* role = i + 1 == widths.size() ? "output" : i == 0 ? "input" : "hidden";
    layers_.push_back({add_parameter(prefix + "weight", {widths[i], in}, "linear", role),
                       add_parameter(prefix + "bias", {widths[i]}, "bias", "bias", true)});
    in = widths[i];
  }
}

Outcome Mlp::forward(const Batch& batch) {
  require_images("Mlp", batch, {config_.channels, config_.size, config_.size});
  return classify(network(batch.inputs), batch.targets, config_.label_smoothing);
}

Outcome Mlp::evaluate(const Batch& batch) const {
  require_images("Mlp", batch, {config_.channels, config_.size, config_.size});
  return classify(predict(batch.inputs), batch.targets, config_.label_smoothing);
}

torch::Tensor Mlp::predict(const torch::Tensor& images) const {
  const torch::NoGradGuard no_grad;
  return network(images);
}

void Mlp::initialize(Random& random) {
  for (const auto& [weight, bias] : layers_) {
    set_uniform(weight, 1 / std::sqrt(static_cast<double>(weight.size(1))), random);
    set_zero(bias);
  }
}

double Mlp::training_flops() const {
  double flops = 0;
  for (const auto& layer : layers_) flops += 6 * static_cast<double>(layer.weight.numel());
  return flops;
}

torch::Tensor Mlp::network(const torch::Tensor& images) const {
  auto x = images.flatten(1);
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (i > 0) x = x.relu() * std::numbers::sqrt2;
    x = torch::linear(x, layers_[i].weight, layers_[i].bias);
  }
  return x;
}

}  // namespace normball::trainer::models
