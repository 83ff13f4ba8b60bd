// The operations of the transformer, each a function of its own: composed of ATen operations here,
// for every device. A fused version for the CPU goes behind the same function.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace normball::trainer {

// x / √(mean(x²) + ε) over the last dimension; ε is the type's machine epsilon.
torch::Tensor rms_norm(const torch::Tensor& x);

// cos(p θ_i) and sin(p θ_i), each (length, dim / 2), for the positions p = first, first + 1, ...
// and θ_i = base^(−2i / dim).
struct Rotation {
  torch::Tensor cos, sin;
};
Rotation rotary_embedding(std::int64_t first, std::int64_t length, std::int64_t dim, double base,
                          torch::TensorOptions options);

// Turns each pair (x_i, x_{i + dim/2}) of x (B, T, heads, dim) by its angle, clockwise.
torch::Tensor rotate(const torch::Tensor& x, const Rotation& rotation);

// 2 max(x, 0)², which keeps the second moment of a standard normal x near its own.
torch::Tensor relu_squared(const torch::Tensor& x);

// softmax(q kᵀ / √dim) v, where a query sees the keys up to its own position. q is
// (B, T, heads, dim); k and v may be longer, then q holds the last T positions. Result as q.
torch::Tensor causal_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v);

// Mean over N of −log softmax(weight hidden)[target], for hidden (N, dim), weight (classes, dim).
torch::Tensor output_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& weight,
                                   const torch::Tensor& targets);

}  // namespace normball::trainer
