#include "trainer/models/cnn.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "normball/base/error.h"
#include "trainer/models/initialization.h"

namespace normball::trainer::models {
namespace {

// Every image moved by so many pixels down and to the right; what comes in is mirrored.
torch::Tensor shifted(const torch::Tensor& images, std::int64_t pixels) {
  const std::int64_t size = images.size(2), border = std::abs(pixels);
  return torch::reflection_pad2d(images, {border, border, border, border})
      .slice(2, border - pixels, border - pixels + size)
      .slice(3, border - pixels, border - pixels + size);
}

// Of a tensor whose channels come last in memory. LibTorch's fast path only knows plain order, so
// it is shown one.
torch::Tensor activation(const torch::Tensor& x) {
  return torch::gelu(x.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
}

constexpr std::int64_t kPatch = 2;                           // pixels a side
constexpr std::array<double, 3> kChannels = {64, 256, 256};  // at width 1

void validate(const CnnConfig& config) {
  require_positive("Cnn", "width", config.width);
  require_positive("Cnn", "output_scale", config.output_scale);
  require_positive("Cnn", "norm_epsilon", config.norm_epsilon);
  if (config.channels < 1 || config.classes < 1) {
    throw_invalid("Cnn", config.channels, " channels and ", config.classes,
                  " classes; both must be at least 1");
  }
  if (config.size < 9) {
    throw_invalid("Cnn", "size ", config.size, "; three poolings need at least 9 pixels a side");
  }
  if (!(config.label_smoothing >= 0 && config.label_smoothing < 1)) {
    throw_invalid("Cnn", "label_smoothing must be in [0, 1), got ", config.label_smoothing);
  }
  if (!(config.norm_momentum >= 0 && config.norm_momentum < 1)) {
    throw_invalid("Cnn", "norm_momentum must be in [0, 1), got ", config.norm_momentum);
  }
  if (!(std::isfinite(config.whiten_epsilon) && config.whiten_epsilon >= 0)) {
    throw_invalid("Cnn", "whiten_epsilon must be 0 or more, got ", config.whiten_epsilon);
  }
  if (config.views != 1 && config.views != 2 && config.views != 6) {
    throw_invalid("Cnn", "views must be 1, 2 or 6, got ", config.views);
  }
}

}  // namespace

Cnn::Cnn(const CnnConfig& config) : config_(config) {
  validate(config);
  std::int64_t channels = 2 * config.channels * kPatch * kPatch;
  whiten_ = add_buffer("whiten", torch::zeros({channels, config.channels, kPatch, kPatch}));
  whiten_bias_ = add_parameter("whiten.bias", {channels}, Kind::Bias, Role::Bias, true);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto width = std::max<std::int64_t>(1, std::lround(config.width * kChannels[g]));
    for (size_t h = 0; h < 2; ++h) {
      const std::string prefix =
          "groups." + std::to_string(g) + ".conv" + std::to_string(h + 1) + ".";
      auto& half = groups_[g][h];
      half.filters =
          add_parameter(prefix + "filters", {width, channels, 3, 3}, Kind::Conv, Role::Hidden);
      half.bias = add_parameter(prefix + "bias", {width}, Kind::Bias, Role::Bias, true);
      half.mean = add_buffer(prefix + "mean", torch::zeros({width}));
      half.variance = add_buffer(prefix + "variance", torch::ones({width}));
      channels = width;
    }
  }
  head_ = add_parameter("head", {config.classes, channels}, Kind::Output, Role::Output);
}

Outcome Cnn::forward(const Batch& batch) {
  require_images("Cnn", batch, {config_.channels, config_.size, config_.size});
  return classify(network(batch.inputs, true), batch.targets, config_.label_smoothing);
}

Outcome Cnn::evaluate(const Batch& batch) const {
  require_images("Cnn", batch, {config_.channels, config_.size, config_.size});
  const torch::NoGradGuard no_grad;
  return classify(predict(batch.inputs), batch.targets, config_.label_smoothing);
}

torch::Tensor Cnn::logits(const torch::Tensor& images) const {
  const torch::NoGradGuard no_grad;
  return network(images, false);
}

// Half the weight on the centre, a quarter on each of two shifts, each mirrored as well.
torch::Tensor Cnn::predict(const torch::Tensor& images) const {
  if (config_.views == 1) return logits(images);
  const auto mirrored = [&](const torch::Tensor& x) { return (logits(x) + logits(x.flip(3))) / 2; };
  if (config_.views == 2) return mirrored(images);
  return mirrored(images) / 2 + (mirrored(shifted(images, -1)) + mirrored(shifted(images, 1))) / 4;
}

void Cnn::initialize(Random& random) {
  for (const auto& parameter : parameters()) {
    auto weight = parameter.tensor;
    if (parameter.starts_at_zero) {
      set_zero(weight);
      continue;
    }
    const double fan_in = static_cast<double>(weight[0].numel());
    set_uniform(weight, 1 / std::sqrt(fan_in), random);
    if (parameter.kind == Kind::Conv) {
      const torch::NoGradGuard no_grad;
      const auto through = weight.slice(0, 0, weight.size(1));
      torch::nn::init::dirac_(through);
    }
  }
}

void Cnn::prepare(const torch::Tensor& images) {
  const Batch batch{images, torch::zeros({images.size(0)})};
  require_images("Cnn::prepare", batch, {config_.channels, config_.size, config_.size});
  const torch::NoGradGuard no_grad;
  const std::int64_t pixels = config_.channels * kPatch * kPatch;
  // (N, patches, channel · row · column), in double: the smallest variances are 1e-4 of the
  // largest.
  const auto patches =
      torch::nn::functional::unfold(images.to(torch::kFloat64),
                                    torch::nn::functional::UnfoldFuncOptions({kPatch, kPatch}))
          .transpose(1, 2)
          .reshape({-1, pixels});
  const auto moments = patches.t().matmul(patches) / static_cast<double>(patches.size(0));
  const auto [variances, directions] = torch::linalg_eigh(moments);
  const auto lengths = (variances.clamp_min(0) + config_.whiten_epsilon).sqrt();
  if (lengths.min().item<double>() == 0) {
    throw_invalid("Cnn::prepare", "the patches of ", images.size(0),
                  " images do not span all directions; give more images or a whiten_epsilon");
  }
  const auto filters = (directions / lengths).t().reshape({-1, config_.channels, kPatch, kPatch});
  whiten_.copy_(torch::cat({filters, -filters}));
}

double Cnn::training_flops() const {
  // Multiplications of an image: pixels times filter entries; three passes over the trained layers,
  // one over the whitening.
  std::int64_t side = config_.size - kPatch + 1;
  double once = static_cast<double>(side * side * whiten_.numel()), thrice = 0;
  for (const auto& group : groups_) {
    thrice += static_cast<double>(side * side * group[0].filters.numel());
    side /= 2;
    thrice += static_cast<double>(side * side * group[1].filters.numel());
  }
  thrice += static_cast<double>(head_.numel());
  return 2 * (once + 3 * thrice);
}

// With the channels last in memory, which spares convolutions a change of order before and after,
// and makes pooling four times as fast.
torch::Tensor Cnn::network(const torch::Tensor& images, bool training) const {
  constexpr auto channels_last = torch::MemoryFormat::ChannelsLast;
  auto x = torch::conv2d(images.contiguous(channels_last), whiten_, whiten_bias_);
  x = activation(x.contiguous(channels_last));  // with one channel both orders are the same
  for (const auto& [first, second] : groups_) {
    x = torch::max_pool2d(torch::conv2d(x, first.filters, {}, 1, 1), 2);
    x = activation(normalize(x, first, training));
    x = torch::conv2d(x, second.filters, {}, 1, 1);
    x = activation(normalize(x, second, training));
  }
  x = torch::max_pool2d(x, x.size(2)).flatten(1);
  return torch::linear(x, head_) * config_.output_scale;
}

torch::Tensor Cnn::normalize(const torch::Tensor& x, const Half& half, bool training) const {
  return torch::batch_norm(x, {}, half.bias, half.mean, half.variance, training,
                           1 - config_.norm_momentum, config_.norm_epsilon, false);
}

}  // namespace normball::trainer::models
