#include "trainer/train/gradient_sum.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <numeric>
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
    : team_(team),
      parameters_(parameters),
      parts_(parameters.size()),
      bucket_of_(parameters.size()) {
  make_buckets();
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

void GradientSum::divide(std::vector<std::vector<std::int64_t>> parts) {
  parts_ = std::move(parts);
  make_buckets();
}

// The backward pass finds the gradients of the last layers first, and a bucket is complete when it
// has found the last member.
void GradientSum::make_buckets() {
  buckets_.clear();
  bytes_ = 0;
  std::array<std::int64_t, 2> collected = {bucket_elements, bucket_elements};
  std::array<size_t, 2> last = {};  // bucket of each kind
  for (size_t i = parameters_.size(); i-- > 0;) {
    const std::int64_t own = parameters_[i].tensor.numel();
    const size_t kind = parts_[i].empty() ? 0 : 1;
    bytes_ += own * static_cast<std::int64_t>(sizeof(float));
    if (collected[kind] + own > bucket_elements) {
      last[kind] = buckets_.size();
      buckets_.emplace_back().divided = kind == 1;
      collected[kind] = 0;
    }
    collected[kind] += own;
    buckets_[last[kind]].members.push_back(i);
  }
  std::ranges::sort(buckets_, std::greater{}, [](const Bucket& b) { return b.members.back(); });
  for (size_t b = 0; b < buckets_.size(); ++b) {
    for (const size_t member : buckets_[b].members) bucket_of_[member] = b;
  }
}

void GradientSum::expect_last_pass() {
  last_pass_ = true;
  next_ = taken_ = 0;
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
  while (taken_ < next_ && buckets_[taken_].pending->done()) take(buckets_[taken_++]);
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

// The elements of a gradient that a rank needs.
torch::Tensor GradientSum::part_of(size_t parameter, int rank) const {
  const auto& parts = parts_[parameter];
  const auto begin = std::accumulate(parts.begin(), parts.begin() + rank, std::int64_t{0});
  const auto flat = parameters_[parameter].tensor.grad().view(-1);
  return flat.narrow(0, begin, parts[static_cast<size_t>(rank)]);
}

void GradientSum::send(Bucket& bucket) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients;
  for (const size_t member : bucket.members) gradients.push_back(gradient_of(member).view(-1));
  if (!bucket.divided) {
    bucket.sent = gradients.size() > 1 ? torch::cat(gradients) : gradients.front();
    bucket.pending = team_.ranks()->all_reduce(bucket.sent);
    return;
  }
  std::vector<std::int64_t> counts = parts_[bucket.members.front()];
  bucket.sent = gradients.front();
  if (gradients.size() > 1) {
    gradients.clear();
    for (int rank = 0; rank < team_.size(); ++rank) {
      std::int64_t& count = counts[static_cast<size_t>(rank)] = 0;
      for (const size_t member : bucket.members) {
        gradients.push_back(part_of(member, rank));
        count += gradients.back().numel();
      }
    }
    bucket.sent = torch::cat(gradients);
  }
  bucket.pending = team_.ranks()->reduce_parts(bucket.sent, std::move(counts));
}

void GradientSum::take(Bucket& bucket) {
  const torch::NoGradGuard no_grad;
  bucket.pending->wait();
  bucket.pending.reset();
  if (bucket.members.size() > 1) copy_back(bucket);
  bucket.sent.reset();
}

void GradientSum::copy_back(const Bucket& bucket) const {
  const int last = bucket.divided ? team_.rank() : 0;
  std::int64_t at = 0;
  for (int rank = 0; rank <= last; ++rank) {
    for (const size_t member : bucket.members) {
      const auto to =
          bucket.divided ? part_of(member, rank) : parameters_[member].tensor.grad().view(-1);
      if (rank == last) to.copy_(bucket.sent.narrow(0, at, to.numel()));
      at += to.numel();
    }
  }
}

std::optional<size_t> GradientSum::finish() {
  if (!last_pass_) expect_last_pass();
  send_ready_ones(true);
  last_pass_ = false;
  const auto start = std::chrono::steady_clock::now();
  std::exception_ptr failure;  // all must have ended before one of them is told
  for (; taken_ < buckets_.size(); ++taken_) {
    try {
      take(buckets_[taken_]);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  exposed_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return bad_;
}

void GradientSum::bring_all() {
  const torch::NoGradGuard no_grad;
  std::vector<std::unique_ptr<ranks::Pending>> pending;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    for (size_t rank = 0; rank < parts_[i].size(); ++rank) {
      const auto part = part_of(i, static_cast<int>(rank));
      if (part.numel() == 0) continue;
      pending.push_back(team_.ranks()->broadcast(part, static_cast<int>(rank)));
    }
  }
  ranks::wait_for(pending);
}

}  // namespace normball::trainer::train
