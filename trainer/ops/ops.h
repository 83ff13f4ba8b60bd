// The pieces of a transformer that composed tensor operations do slowly on a CPU, as single
// differentiable functions. CPU float32 and float64 take the fused path; everything else, and
// composed = true, the equivalent tensor operations.
#pragma once

#include <torch/torch.h>

namespace normball::trainer::ops {

// x / sqrt(mean(x²) + eps) over the last dimension, without gain; eps is that of the type, of float
// for narrower ones.
at::Tensor rms_norm(const at::Tensor& x, bool composed = false);

// cos(p θ_i) and sin(p θ_i), each (length, dim / 2), for the positions p = first, first + 1, ...
// and θ_i = base^(-2i / dim).
struct Rotation {
  at::Tensor cos, sin;
};
Rotation rotary_embedding(int64_t first, int64_t length, int64_t dim, double base,
                          const at::TensorOptions& options);

// rms_norm of every head, then each pair (x_i, x_{i + dim/2}) turned by its angle, clockwise; x is
// (batch, time, heads, dim), the rotation has as many positions.
at::Tensor norm_rotary(const at::Tensor& x, const Rotation& rotation, bool composed = false);

// x weightᵀ over the last dimension.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, bool composed = false);

// 2 max(x, 0)²
at::Tensor relu_squared(const at::Tensor& x, bool composed = false);

// softmax(q kᵀ / sqrt(dim)) v, where a query sees the keys up to its own position; (batch, time,
// heads, dim). k and v may be longer than q, which then holds the last positions. The fused path,
// for equal lengths, holds one block of rows of the scores at a time.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            bool composed = false);

// The same where every query sees every key: q, k and v have one shape.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     bool composed = false);

// The mean cross-entropy of softmax(x weightᵀ) with the targets: x (tokens, width), weight
// (vocabulary, width). The fused path computes loss and gradients in one sweep over blocks of
// tokens and never holds all logits.
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& targets, bool composed = false);

}  // namespace normball::trainer::ops
