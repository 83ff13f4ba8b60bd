#include "trainer/models/gpt.h"

#include <cmath>
#include <string>

#include "normball/error.h"
#include "trainer/models/initialization.h"

namespace normball::trainer::models {
namespace {

void validate(const GptConfig& config) {
  const auto positive = [](const char* what, std::int64_t value) {
    if (value < 1) detail::invalid("Gpt", what, " must be at least 1, got ", value);
  };
  positive("vocabulary", config.vocabulary);
  positive("layers", config.layers);
  positive("heads", config.heads);
  positive("width", config.width);
  positive("context", config.context);
  detail::require_positive("Gpt", "rotary_base", config.rotary_base);
  if (config.width % (2 * config.heads) != 0) {
    detail::invalid("Gpt", "width ", config.width, " with ", config.heads,
                    " heads; the width must be a multiple of twice the heads");
  }
}

// Appends to the keys or values of a block and returns those in the window.
torch::Tensor remember(std::vector<torch::Tensor>& cache, size_t block, const torch::Tensor& newest,
                       std::int64_t window) {
  if (cache.size() <= block) cache.resize(block + 1);
  auto& all = cache[block];
  all = all.defined() ? torch::cat({all, newest}, 1) : newest;
  const std::int64_t excess = all.size(1) - window;
  if (excess > 0) all = all.slice(1, excess);
  return all;
}

}  // namespace

Gpt::Gpt(const GptConfig& config) : config_(config) {
  validate(config);
  const std::int64_t width = config.width;
  embedding_ = add_parameter("embedding", {config.vocabulary, width}, "embedding", "output");
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string prefix = "blocks." + std::to_string(i) + ".";
    const auto linear = [&](const char* name, std::int64_t out, std::int64_t in, bool last) {
      return add_parameter(prefix + name, {out, in}, "linear", "hidden", last);
    };
    Block block;
    block.query = linear("query", width, width, false);
    block.key = linear("key", width, width, false);
    block.value = linear("value", width, width, false);
    block.project = linear("project", width, width, true);
    block.up = linear("up", 4 * width, width, false);
    block.down = linear("down", width, 4 * width, true);
    blocks_.push_back(block);
  }
}

Outcome Gpt::forward(const Batch& batch) {
  return {.loss = loss(batch), .count = batch.targets.numel()};
}

Outcome Gpt::evaluate(const Batch& batch) const {
  const torch::NoGradGuard no_grad;
  return {.loss = loss(batch), .count = batch.targets.numel()};
}

torch::Tensor Gpt::predict(const torch::Tensor& tokens) const {
  const torch::NoGradGuard no_grad;
  return torch::matmul(hidden(tokens, nullptr), embedding_.t());
}

torch::Tensor Gpt::continue_with(const torch::Tensor& tokens, KeyValueCache& cache) const {
  const torch::NoGradGuard no_grad;
  return torch::matmul(hidden(tokens, &cache).select(1, -1), embedding_.t());
}

void Gpt::initialize(Random& random) {
  for (const auto& parameter : parameters()) {
    if (parameter.starts_at_zero) {
      set_zero(parameter.tensor);
    } else {
      const double bound = 1 / std::sqrt(static_cast<double>(parameter.tensor.size(1)));
      set_uniform(parameter.tensor, bound, random);
    }
  }
}

// Every weight multiplies once forward and twice backward; attention sees half the square of
// positions, with two products.
double Gpt::training_flops() const {
  const auto attention = static_cast<double>(config_.layers * config_.width * config_.context);
  return 6 * static_cast<double>(parameter_count()) + 6 * attention;
}

torch::Tensor Gpt::loss(const Batch& batch) const {
  if (batch.targets.sizes() != batch.inputs.sizes()) {
    detail::invalid("Gpt", "inputs are ", batch.inputs.sizes(), " but targets ",
                    batch.targets.sizes(), "; each token needs the next one as its target");
  }
  const auto x = hidden(batch.inputs, nullptr).flatten(0, 1);
  return ops::linear_cross_entropy(x, embedding_, batch.targets.flatten());
}

torch::Tensor Gpt::hidden(const torch::Tensor& tokens, KeyValueCache* cache) const {
  if (tokens.dim() != 2 || tokens.numel() == 0) {
    detail::invalid("Gpt", "tokens are ", tokens.sizes(), "; (batch, length) is needed");
  }
  const std::int64_t first = cache ? cache->position : 0, length = tokens.size(1);
  const auto rotation = ops::rotary_embedding(first, length, config_.width / config_.heads,
                                              config_.rotary_base, embedding_.options());
  // A sparse gradient: it is added to the output layer's, which is dense, row by row.
  auto x = torch::embedding(embedding_, tokens, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false,
                            /*sparse=*/true);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    x = x + attention(i, ops::rms_norm(x), rotation, cache);
    x = x + ops::linear(ops::relu_squared(ops::linear(ops::rms_norm(x), block.up)), block.down);
  }
  if (cache) cache->position += length;
  return ops::rms_norm(x);
}

torch::Tensor Gpt::attention(size_t index, const torch::Tensor& x, const ops::Rotation& rotation,
                             KeyValueCache* cache) const {
  const Block& block = blocks_[index];
  const auto heads = [&](const torch::Tensor& weight) {
    return ops::linear(x, weight).unflatten(2, {config_.heads, -1});
  };
  const auto q = ops::norm_rotary(heads(block.query), rotation);
  auto k = ops::norm_rotary(heads(block.key), rotation);
  auto v = heads(block.value);
  if (cache) {
    k = remember(cache->keys, index, k, config_.context);
    v = remember(cache->values, index, v, config_.context);
  }
  return ops::linear(ops::causal_attention(q, k, v).flatten(2), block.project);
}

}  // namespace normball::trainer::models
