// The pieces of a transformer that composed tensor operations do slowly on a CPU, as single
// differentiable functions. CPU float32 and float64 take the fused path; everything else, and
// composed = true, the equivalent tensor operations.
#pragma once

#include <torch/torch.h>

namespace normball::trainer::ops {

constexpr double rms_epsilon = 1e-6;

// x / sqrt(mean(x²) + eps) over the last dimension, without gain.
at::Tensor rms_norm(const at::Tensor& x, bool composed = false);

// Cosines and sines of the rotary embedding: two (context, head_dim / 2) tables.
struct RotaryTable {
  at::Tensor cos, sin;
};
RotaryTable rotary_table(int64_t context, int64_t head_dim, double base,
                         const at::TensorOptions& options);

// rms_norm of every head, then its rotation by position; x is (batch, time, heads, head_dim).
at::Tensor norm_rotary(const at::Tensor& x, const RotaryTable& table, bool composed = false);

// 2 max(x, 0)²
at::Tensor relu_squared(const at::Tensor& x, bool composed = false);

// softmax(q kᵀ / sqrt(head_dim)) v over the past of each position; all (batch, time, heads,
// head_dim). The fused path holds one block of rows of the scores at a time.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            bool composed = false);

// The mean cross-entropy of softmax(x weightᵀ) with the targets: x (tokens, width), weight
// (vocabulary, width). The fused path computes loss and gradients in one sweep over blocks of
// tokens and never holds all logits.
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& targets, bool composed = false);

}  // namespace normball::trainer::ops
