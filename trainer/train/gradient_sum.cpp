#include "trainer/train/gradient_sum.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "normball/internal/kernels/kernels.h"

namespace normball::trainer::train {
namespace {

// A gradient as large as this is sent by itself, in place; smaller ones are collected up to it.
constexpr std::int64_t bucket_elements = 1 << 19;

// After the gradient of a leaf was accumulated.
class AfterAccumulation final : public torch::autograd::FunctionPostHook {
 public:
  explicit AfterAccumulation(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

bool is_finite(const torch::Tensor& gradient) {
  return all_finite(MatrixView<const float>(gradient.data_ptr<float>(), 1, gradient.numel()));
}

}  // namespace

GradientSum::GradientSum(const Team& team, const std::vector<models::ModelParameter>& parameters)
    : team_(team), parameters_(parameters), bucket_of_(parameters.size()) {
  std::int64_t collected = bucket_elements;  // in the last bucket
  // The backward pass finds the gradients of the last layers first.
  for (size_t i = parameters_.size(); i-- > 0;) {
    const std::int64_t own = parameters_[i].tensor.numel();
    bytes_ += own * static_cast<std::int64_t>(sizeof(float));
    if (collected + own > bucket_elements) {
      buckets_.emplace_back();
      collected = 0;
    }
    collected += own;
    buckets_.back().members.push_back(i);
    bucket_of_[i] = buckets_.size() - 1;
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto node = torch::autograd::impl::grad_accumulator(parameters_[i].tensor);
    const std::weak_ptr<bool> alive = alive_;
    node->add_post_hook(std::make_unique<AfterAccumulation>([this, alive, i] {
      if (!alive.expired()) ready(i);
    }));
    hooked_.push_back(node);  // autograd itself only keeps it as long as a graph does
  }
}

GradientSum::~GradientSum() = default;

void GradientSum::expect_last_pass() {
  last_pass_ = true;
  next_ = 0;
  bad_.reset();
  ready_.assign(parameters_.size(), 0);
  for (auto& bucket : buckets_) bucket.missing = bucket.members.size();
}

void GradientSum::ready(size_t parameter) {
  if (!last_pass_ || ready_[parameter] != 0) return;
  ready_[parameter] = 1;
  --buckets_[bucket_of_[parameter]].missing;
  send_ready_ones(false);
}

// All ranks in the same order, whatever is ready first.
void GradientSum::send_ready_ones(bool all) {
  while (next_ < buckets_.size() && (all || buckets_[next_].missing == 0)) send(buckets_[next_++]);
}

// Dense and contiguous, whatever the pass left.
torch::Tensor GradientSum::gradient_of(size_t parameter) {
  auto& gradient = parameters_[parameter].tensor.mutable_grad();
  if (!gradient.defined()) gradient = torch::zeros_like(parameters_[parameter].tensor);
  if (gradient.is_sparse()) gradient = gradient.to_dense();
  if (!gradient.is_contiguous()) gradient = gradient.contiguous();
  if (!bad_ && !is_finite(gradient)) bad_ = parameter;
  return gradient;
}

void GradientSum::send(Bucket& bucket) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients;
  for (const size_t member : bucket.members) gradients.push_back(gradient_of(member).flatten());
  bucket.copied = gradients.size() > 1;
  bucket.sent = bucket.copied ? torch::cat(gradients) : gradients.front();
  pending_.push_back(team_.ranks()->all_reduce(bucket.sent));
}

std::optional<size_t> GradientSum::finish() {
  const torch::NoGradGuard no_grad;
  if (!last_pass_) expect_last_pass();
  send_ready_ones(true);
  last_pass_ = false;
  const auto start = std::chrono::steady_clock::now();
  ranks::wait_for(std::exchange(pending_, {}));
  exposed_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (auto& bucket : buckets_) {
    std::int64_t offset = 0;
    for (const size_t member : bucket.members) {
      if (!bucket.copied) break;
      auto gradient = parameters_[member].tensor.mutable_grad().flatten();
      gradient.copy_(bucket.sent.narrow(0, offset, gradient.numel()));
      offset += gradient.numel();
    }
    bucket.sent.reset();
  }
  return bad_;
}

}  // namespace normball::trainer::train
