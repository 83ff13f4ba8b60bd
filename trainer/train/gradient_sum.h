// Gradients summed over all ranks while the backward pass still runs: each is sent as soon as it
// and those before it are there, small ones together. To all ranks, or each part of it to the rank
// that needs it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trainer/models/model.h"
#include "trainer/train/team.h"

namespace normball::trainer::train {

class GradientSum {
 public:
  // All ranks with the same parameters. The team must live as long.
  GradientSum(const Team& team, const std::vector<models::ModelParameter>& parameters);
  ~GradientSum();
  // Before the first pass: how many elements of each parameter's gradient each rank needs, rank 0
  // the first so many; empty where all need all. What a rank does not need keeps its own values.
  void divide(std::vector<std::vector<std::int64_t>> parts);
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  // The next backward pass is this rank's last one of the step: its gradients are ready.
  void expect_last_pass();

  // Sends what was not sent yet, also where there was no pass at all, and returns when all
  // gradients are sums. Which of this rank's own was not finite, if one: then so are the sums.
  std::optional<size_t> finish();
  // After that: the whole sums to all ranks.
  void bring_all();

  double exposed_seconds() const { return exposed_seconds_; }  // waited for in finish(), in all
  std::int64_t bytes() const { return bytes_; }                // of the gradients of a step

 private:
  struct Bucket {
    std::vector<size_t> members;  // of parameters_
    bool divided = false;
    size_t missing = 0;
    torch::Tensor sent;  // the gradient itself, or a copy of several: of divided ones rank by rank
    std::unique_ptr<ranks::Pending> pending;
  };

  void ready(size_t parameter);
  void send_ready_ones(bool all);
  void make_buckets();
  void send(Bucket& bucket);
  void take(Bucket& bucket);
  torch::Tensor gradient_of(size_t parameter);
  torch::Tensor part_of(size_t parameter, int rank) const;
  void copy_back(const Bucket& bucket) const;

  const Team& team_;
  std::vector<models::ModelParameter> parameters_;
  std::vector<std::vector<std::int64_t>> parts_;  // of each; empty where all ranks need all
  // A std::shared_ptr, and from LibTorch 2.14 on an intrusive one.
  using NodePointer =
      decltype(torch::autograd::impl::grad_accumulator(std::declval<torch::Tensor>()));
  std::vector<NodePointer> hooked_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // hooks may outlive this
  std::vector<Bucket> buckets_;    // in the order in which they are sent
  std::vector<size_t> bucket_of_;  // of each parameter
  bool last_pass_ = false;
  size_t next_ = 0, taken_ = 0;  // of buckets_
  std::vector<char> ready_;
  std::optional<size_t> bad_;
  double exposed_seconds_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace normball::trainer::train
