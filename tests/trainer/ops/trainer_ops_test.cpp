#include <gtest/gtest.h>

#include "trainer/ops/ops.h"

namespace normball::trainer::ops {
namespace {

using Tensors = std::vector<at::Tensor>;
using Operation = std::function<at::Tensor(const Tensors&, bool composed)>;

struct Case {
  std::string name;
  Operation operation;
  std::vector<std::vector<int64_t>> shapes;
};

at::Tensor some_targets(int64_t tokens, int64_t vocabulary) {
  return at::arange(tokens) * 7 % vocabulary;
}

std::vector<Case> cases() {
  const auto rotary = [](const Tensors& x, bool composed) {
    const auto options = x[0].options().requires_grad(false);
    const auto rotation = rotary_embedding(3, x[0].size(1), x[0].size(3), 1e4, options);
    return norm_rotary(x[0], rotation, composed);
  };
  const auto to_all = [](const Tensors& x, bool composed) {
    return attention(x[0], x[1], x[2], composed);
  };
  const auto attention = [](const Tensors& x, bool composed) {
    return causal_attention(x[0], x[1], x[2], composed);
  };
  const auto entropy = [](const Tensors& x, bool composed) {
    return linear_cross_entropy(x[0], x[1], some_targets(x[0].size(0), x[1].size(0)), composed);
  };
  const std::vector<int64_t> heads = {2, 13, 3, 8}, long_heads = {1, 130, 2, 16};
  return {
      {"rms_norm", [](auto& x, bool c) { return rms_norm(x[0], c); }, {{3, 5, 37}}},
      {"linear", [](auto& x, bool c) { return ops::linear(x[0], x[1], c); }, {{2, 5, 7}, {11, 7}}},
      {"linear in several pieces",
       [](auto& x, bool c) { return ops::linear(x[0], x[1], c); },
       {{700, 150}, {530, 150}}},
      {"relu_squared", [](auto& x, bool c) { return relu_squared(x[0], c); }, {{4, 33}}},
      {"norm_rotary", rotary, {{2, 13, 3, 10}}},
      {"attention", attention, {heads, heads, heads}},
      {"attention over several blocks", attention, {long_heads, long_heads, long_heads}},
      {"attention to all", to_all, {heads, heads, heads}},
      {"attention to all over several blocks", to_all, {long_heads, long_heads, long_heads}},
      {"cross-entropy", entropy, {{9, 6}, {31, 6}}},
      {"cross-entropy over several blocks", entropy, {{2100, 4}, {70, 4}}},
  };
}

Tensors inputs(const Case& item, at::ScalarType type) {
  at::manual_seed(7);
  Tensors result;
  for (const auto& shape : item.shapes) {
    result.push_back(at::randn(shape, type).requires_grad_(true));
  }
  return result;
}

// The result and every gradient, for a fixed random weighting of the result.
Tensors value_and_gradients(const Case& item, const Tensors& x, bool composed) {
  const auto y = item.operation(x, composed);
  at::manual_seed(11);
  const auto weighting = at::randn(y.sizes(), y.options().requires_grad(false));
  auto result = torch::autograd::grad({(y * weighting).sum()}, x);
  result.push_back(y.detach());
  return result;
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  const auto scale = b.abs().max().item<double>();
  return (a - b).abs().max().item<double>() / (scale > 0 ? scale : 1);
}

TEST(Ops, FusedEqualsComposed) {
  for (const auto& item : cases()) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      const double bound = type == at::kFloat ? 2e-6 : 1e-13;
      const auto x = inputs(item, type);
      const auto fused = value_and_gradients(item, x, false);
      const auto composed = value_and_gradients(item, x, true);
      for (size_t i = 0; i < fused.size(); ++i) {
        EXPECT_LE(relative_difference(fused[i], composed[i]), bound) << item.name << " " << i;
      }
    }
  }
}

TEST(Ops, GradientsAreDerivatives) {
  for (const auto& item : cases()) {
    const auto x = inputs(item, at::kDouble);
    const auto y = item.operation(x, false);
    const auto weighting = at::randn(y.sizes(), y.options().requires_grad(false));
    const auto gradients = torch::autograd::grad({(y * weighting).sum()}, x);
    const at::NoGradGuard guard;
    for (size_t i = 0; i < x.size(); ++i) {
      const auto direction = at::randn_like(x[i]);
      const double step = 1e-5;
      const auto value_at = [&](double t) {
        auto moved = x;
        moved[i] = x[i] + t * direction;
        return (item.operation(moved, false) * weighting).sum().item<double>();
      };
      const double numeric = (value_at(step) - value_at(-step)) / (2 * step);
      const double analytic = (gradients[i] * direction).sum().item<double>();
      EXPECT_NEAR(numeric, analytic, 1e-6 * (1 + std::abs(analytic))) << item.name << " " << i;
    }
  }
}

// Shapes at which the libraries' own threaded products were seen to change with their number: at
// AVX2 nearly all, at AVX-512 the long sums.
TEST(Ops, ThreadsDoNotChangeTheBits) {
  const int before = at::get_num_threads();
  auto items = cases();
  items.push_back({"linear of a transformer",
                   [](auto& x, bool c) { return ops::linear(x[0], x[1], c); },
                   {{2048, 384}, {384, 384}}});
  for (const auto& item : items) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      const auto x = inputs(item, type);
      at::set_num_threads(1);
      const auto one = value_and_gradients(item, x, false);
      for (const int threads : {2, 3}) {
        at::set_num_threads(threads);
        const auto more = value_and_gradients(item, x, false);
        for (size_t i = 0; i < one.size(); ++i) {
          EXPECT_TRUE(one[i].equal(more[i])) << item.name << " " << i << " " << threads;
        }
      }
    }
  }
  at::set_num_threads(before);
}

TEST(Ops, StridedInputs) {
  const auto packed = at::randn({2, 13, 3, 3, 8});
  const Tensors strided = {packed.select(2, 0), packed.select(2, 1), packed.select(2, 2)};
  const auto fused = causal_attention(strided[0], strided[1], strided[2]);
  const auto dense =
      causal_attention(strided[0].contiguous(), strided[1].contiguous(), strided[2].contiguous());
  EXPECT_TRUE(fused.equal(dense));
  const auto transposed = at::randn({37, 6}).t();
  EXPECT_TRUE(rms_norm(transposed).equal(rms_norm(transposed.contiguous())));
  const auto weight = at::randn({37, 4}).t();
  EXPECT_TRUE(ops::linear(transposed, weight)
                  .equal(ops::linear(transposed.contiguous(), weight.contiguous())));
}

// A query after a prompt sees what the last query of the whole sequence sees.
TEST(Ops, AttentionOverLongerKeys) {
  const auto q = at::randn({2, 9, 3, 8}), k = at::randn_like(q), v = at::randn_like(q);
  const auto all = causal_attention(q, k, v);
  for (const int64_t last : {1, 4}) {
    const auto tail = causal_attention(q.narrow(1, 9 - last, last), k, v);
    EXPECT_LE(relative_difference(tail, all.narrow(1, 9 - last, last)), 1e-6);
  }
}

TEST(Ops, NotANumberIsNotHidden) {
  auto x = at::randn({4, 8});
  x[2][3] = NAN;
  const auto weight = at::randn({50, 8});
  EXPECT_TRUE(std::isnan(linear_cross_entropy(x, weight, some_targets(4, 50)).item<float>()));
  auto q = at::randn({1, 6, 1, 8});
  q[0][2][0][0] = NAN;
  const auto out = causal_attention(q, at::randn_like(q), at::randn_like(q));
  EXPECT_TRUE(out[0][2].isnan().all().item<bool>());
  EXPECT_FALSE(out[0][1].isnan().any().item<bool>());
}

TEST(Ops, LossAloneNeedsNoGradientMemory) {
  const auto weight = at::randn({50, 8}).requires_grad_(true);
  const at::NoGradGuard guard;
  const auto loss = linear_cross_entropy(at::randn({4, 8}), weight, some_targets(4, 50));
  EXPECT_FALSE(loss.requires_grad());
}

TEST(Ops, ShapesAndTargetsAreChecked) {
  const auto x = at::randn({4, 8}), weight = at::randn({50, 8});
  EXPECT_THROW(ops::linear(x, at::randn({8, 50})), c10::Error);
  EXPECT_THROW(linear_cross_entropy(x, at::randn({50, 7}), some_targets(4, 50)), c10::Error);
  EXPECT_THROW(linear_cross_entropy(x, weight, at::full({4}, 50, at::kLong)), c10::Error);
  EXPECT_THROW(linear_cross_entropy(x, weight, at::full({4}, -1, at::kLong)), c10::Error);
  EXPECT_THROW(
      causal_attention(at::randn({1, 2, 3, 4}), at::randn({1, 2, 3, 5}), at::randn({1, 2, 3, 4})),
      c10::Error);
}

}  // namespace
}  // namespace normball::trainer::ops
