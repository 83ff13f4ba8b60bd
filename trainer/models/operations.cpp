#include "trainer/models/operations.h"

#include <cmath>
#include <limits>

namespace normball::trainer {

torch::Tensor rms_norm(const torch::Tensor& x) {
  const double epsilon = x.scalar_type() == torch::kFloat64 ? std::numeric_limits<double>::epsilon()
                                                            : std::numeric_limits<float>::epsilon();
  return x * x.square().mean(-1, /*keepdim=*/true).add(epsilon).rsqrt();
}

Rotation rotary_embedding(std::int64_t first, std::int64_t length, std::int64_t dim, double base,
                          torch::TensorOptions options) {
  // In double: in float the angle of a late position is off by 1e-4.
  const auto exact = torch::TensorOptions(torch::kFloat64);
  const auto theta =
      torch::pow(base, torch::arange(0, dim, 2, exact) / (-static_cast<double>(dim)));
  const auto angles = torch::outer(torch::arange(first, first + length, exact), theta);
  return {angles.cos().to(options), angles.sin().to(options)};
}

torch::Tensor rotate(const torch::Tensor& x, const Rotation& rotation) {
  const auto halves = x.chunk(2, -1);
  const auto cos = rotation.cos.unsqueeze(1), sin = rotation.sin.unsqueeze(1);
  return torch::cat({halves[0] * cos + halves[1] * sin, halves[1] * cos - halves[0] * sin}, -1);
}

torch::Tensor relu_squared(const torch::Tensor& x) { return x.relu().square() * 2; }

torch::Tensor causal_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v) {
  const std::int64_t queries = q.size(1), keys = k.size(1);
  const auto scaled = q.transpose(1, 2) / std::sqrt(static_cast<double>(q.size(3)));
  auto scores = torch::matmul(scaled, k.permute({0, 2, 3, 1}));
  if (queries > 1) {  // a single query is the last position and sees everything
    const auto future =
        torch::ones({queries, keys}, scores.options().dtype(torch::kBool)).triu(keys - queries + 1);
    scores = scores.masked_fill(future, -std::numeric_limits<double>::infinity());
  }
  return torch::matmul(scores.softmax(-1), v.transpose(1, 2)).transpose(1, 2);
}

torch::Tensor output_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& weight,
                                   const torch::Tensor& targets) {
  return torch::nn::functional::cross_entropy(torch::matmul(hidden, weight.t()), targets);
}

}  // namespace normball::trainer
