#include "trainer/models/vit.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "normball/base/error.h"
#include "trainer/models/initialization.h"
#include "trainer/ops/ops.h"

namespace normball::trainer::models {
namespace {

void validate(const VitConfig& config) {
  const auto positive = [](const char* what, std::int64_t value) {
    if (value < 1) throw_invalid("Vit", what, " must be at least 1, got ", value);
  };
  positive("channels", config.channels);
  positive("patch", config.patch);
  positive("classes", config.classes);
  positive("layers", config.layers);
  positive("heads", config.heads);
  if (config.width < 1 || config.width % config.heads != 0) {
    throw_invalid("Vit", "width ", config.width, " with ", config.heads,
                  " heads; the width must be a multiple of the heads");
  }
  if (config.size < config.patch || config.size % config.patch != 0) {
    throw_invalid("Vit", "images of ", config.size, " pixels with patches of ", config.patch,
                  "; the size must be a multiple of the patch");
  }
  if (!(config.drop >= 0 && config.drop < 1)) {
    throw_invalid("Vit", "drop must be in [0, 1), got ", config.drop);
  }
  if (!(config.label_smoothing >= 0 && config.label_smoothing < 1)) {
    throw_invalid("Vit", "label_smoothing must be in [0, 1), got ", config.label_smoothing);
  }
}

void set_normal(torch::Tensor tensor, double deviation, Random& random) {
  const torch::NoGradGuard no_grad;
  auto values = torch::empty(tensor.sizes(), torch::kFloat64);
  auto* data = values.data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i) data[i] = deviation * random.normal();
  tensor.copy_(values);
}

}  // namespace

Vit::Norm Vit::add_norm(const std::string& name) {
  if (!config_.layer_norm) return {};
  return {add_parameter(name + ".gain", {config_.width}, Kind::Gain, Role::Bias),
          add_parameter(name + ".bias", {config_.width}, Kind::Bias, Role::Bias, true)};
}

Vit::Linear Vit::add_linear(const std::string& name, std::int64_t out, std::int64_t in) {
  return {add_parameter(name, {out, in}, Kind::Linear, Role::Hidden),
          add_parameter(name + "_bias", {out}, Kind::Bias, Role::Bias, true)};
}

Vit::Vit(const VitConfig& config) : config_(config) {
  validate(config);
  const std::int64_t width = config.width;
  filters_ = add_parameter("patch", {width, config.channels, config.patch, config.patch},
                           Kind::Conv, Role::Hidden);
  filter_bias_ = add_parameter("patch_bias", {width}, Kind::Bias, Role::Bias);
  // Each position takes its own row: embeddings of one-hot inputs.
  class_token_ = add_parameter("class_token", {1, width}, Kind::Embedding, Role::OneHot);
  positions_ =
      add_parameter("positions", {side() * side() + 1, width}, Kind::Embedding, Role::OneHot);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string prefix = "blocks." + std::to_string(i) + ".";
    Block block;
    block.before_attention = add_norm(prefix + "attention_norm");
    block.qkv = add_linear(prefix + "qkv", 3 * width, width);
    block.project = add_linear(prefix + "project", width, width);
    block.before_mlp = add_norm(prefix + "mlp_norm");
    block.up = add_linear(prefix + "up", 4 * width, width);
    block.down = add_linear(prefix + "down", width, 4 * width);
    blocks_.push_back(block);
  }
  last_norm_ = add_norm("norm");
  head_ = {add_parameter("head", {config.classes, width}, Kind::Output, Role::Output),
           add_parameter("head_bias", {config.classes}, Kind::Bias, Role::Bias, true)};
  drawn_ = add_buffer("drop_draws", torch::zeros({2}));
}

// For every image of the micro-batch, so that those of a part of it are the same.
struct Vit::Draws {
  Random random;
  std::int64_t images = 0, first = 0;
};

Outcome Vit::forward(const Batch& batch) {
  require_images("Vit", batch, {config_.channels, config_.size, config_.size});
  const auto entry = [&](std::int64_t i) {
    return static_cast<std::uint64_t>(drawn_[i].item<double>());
  };
  Draws draws{.random = Random(Random(entry(0) << 32 ^ entry(1)).next()),
              .images = std::max(batch.shared, batch.inputs.size(0)),
              .first = batch.first};
  pass_over(1);
  return classify(network(batch.inputs, &draws), batch.targets, config_.label_smoothing);
}

bool Vit::pass_over(std::int64_t micro_batches) {
  if (drops()) drawn_[1] += static_cast<double>(micro_batches);
  return drops();
}

Outcome Vit::evaluate(const Batch& batch) const {
  require_images("Vit", batch, {config_.channels, config_.size, config_.size});
  return classify(predict(batch.inputs), batch.targets, config_.label_smoothing);
}

torch::Tensor Vit::predict(const torch::Tensor& images) const {
  const torch::NoGradGuard no_grad;
  return network(images, nullptr);
}

void Vit::initialize(Random& random) {
  const torch::NoGradGuard no_grad;
  const double bound =
      1 / std::sqrt(static_cast<double>(config_.channels * config_.patch * config_.patch));
  for (const auto& parameter : parameters()) {
    if (parameter.kind == Kind::Conv || parameter.name == "patch_bias") {
      set_uniform(parameter.tensor, bound, random);
    } else if (parameter.kind == Kind::Gain) {
      parameter.tensor.fill_(1);
    } else if (parameter.kind == Kind::Bias) {
      set_zero(parameter.tensor);
    } else {
      set_normal(parameter.tensor, 0.02, random);
    }
  }
  drawn_[0] = static_cast<double>(random.below(1 << 24));  // what a float holds exactly
  drawn_[1] = 0;
}

// Every weight multiplies each token once forward and twice backward; attention has two products
// of all pairs of tokens.
double Vit::training_flops() const {
  const auto tokens = static_cast<double>(side() * side() + 1);
  double each = 0;
  for (const auto& parameter : parameters()) {
    if (parameter.kind == Kind::Linear) each += static_cast<double>(parameter.tensor.numel());
  }
  each += 2 * tokens * static_cast<double>(config_.width * config_.layers);
  return 6 * (each * tokens + static_cast<double>(filters_.numel()) * (tokens - 1) +
              static_cast<double>(head_.weight.numel()));
}

torch::Tensor Vit::normalized(const torch::Tensor& x, const Norm& norm) const {
  if (!config_.layer_norm) return ops::rms_norm(x);
  return torch::layer_norm(x, {config_.width}, norm.gain, norm.bias, 1e-6);
}

torch::Tensor Vit::attention(const torch::Tensor& x, const Block& block) const {
  const auto qkv = (ops::linear(x, block.qkv.weight) + block.qkv.bias)
                       .unflatten(2, {3, config_.heads, config_.width / config_.heads});
  const auto mixed = ops::attention(qkv.select(2, 0), qkv.select(2, 1), qkv.select(2, 2));
  return ops::linear(mixed.flatten(2), block.project.weight) + block.project.bias;
}

torch::Tensor Vit::mlp(const torch::Tensor& x, const Block& block) const {
  auto hidden = torch::gelu(ops::linear(x, block.up.weight) + block.up.bias);
  if (config_.scaled_gelu) hidden = hidden * std::numbers::sqrt2;
  return ops::linear(hidden, block.down.weight) + block.down.bias;
}

torch::Tensor Vit::dropped(const torch::Tensor& branch, double probability, Draws* draws) const {
  if (draws == nullptr || probability == 0) return branch;
  auto factors = torch::empty({draws->images, 1, 1}, torch::kFloat64);
  auto* data = factors.data_ptr<double>();
  for (std::int64_t i = 0; i < draws->images; ++i) {
    data[i] = draws->random.uniform() < probability ? 0 : 1 / (1 - probability);
  }
  return branch * factors.narrow(0, draws->first, branch.size(0)).to(branch.options());
}

torch::Tensor Vit::network(const torch::Tensor& images, Draws* draws) const {
  const std::int64_t batch = images.size(0), patch = config_.patch;
  // (B, side, side, C, patch, patch): a patch's pixels in the order of its filter's.
  const auto patches = images.reshape({batch, config_.channels, side(), patch, side(), patch})
                           .permute({0, 2, 4, 1, 3, 5})
                           .reshape({batch, side() * side(), -1});
  const auto embedded = ops::linear(patches, filters_.flatten(1)) + filter_bias_;
  const auto first = class_token_.unsqueeze(0).expand({batch, 1, config_.width});
  auto x = torch::cat({first, embedded}, 1) + positions_;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const double probability = blocks_.size() > 1 ? config_.drop * static_cast<double>(i) /
                                                        static_cast<double>(blocks_.size() - 1)
                                                  : 0;
    const auto attended = attention(normalized(x, block.before_attention), block);
    x = x + dropped(attended, probability, draws);
    x = x + dropped(mlp(normalized(x, block.before_mlp), block), probability, draws);
  }
  return torch::linear(normalized(x.select(1, 0), last_norm_), head_.weight, head_.bias);
}

}  // namespace normball::trainer::models
