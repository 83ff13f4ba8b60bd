// Several processes that train together, on c10d. See docs/distributed.md.
#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "normball_torch/ranks/place.h"

namespace normball::ranks {

// Another rank has failed, or does not answer. The text names it and says why, if that is known.
class RanksError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Something sent or received, under way.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;                     // throws RanksError
  virtual bool done() const { return false; }  // wait() would return at once: it need not be known
};

// Waits for all, so that none writes to its memory later, then throws the first error.
void wait_for(std::span<const std::unique_ptr<Pending>> pending);

// What must be the same in all ranks, by name: "configuration", "training data", ...
using Facts = std::vector<std::pair<std::string, std::string>>;

// All ranks call the same functions in the same order, from one thread at a time.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // all <- the bytes of every rank, in their order; each gives as many.
  virtual void gather(std::span<const std::byte> own, std::span<std::byte> all) = 0;
  // Contiguous CPU tensors, in place. The sum and its order are the same in all ranks.
  virtual std::unique_ptr<Pending> broadcast(::torch::Tensor tensor, int root) = 0;
  virtual std::unique_ptr<Pending> all_reduce(::torch::Tensor tensor) = 0;
  // Of one dimension: rank 0 gets the sum of the first parts[0] elements, rank 1 that of the next
  // parts[1], and so on; the others are then of no use to it. Sends half of what a sum for all
  // does.
  virtual std::unique_ptr<Pending> reduce_parts(::torch::Tensor tensor,
                                                std::vector<std::int64_t> parts) = 0;

  // What this rank is at, for the messages of all if another does not answer: "step 7: directions".
  void set_activity(std::string activity) { activity_ = std::move(activity); }
  // Tells the others why this one ends. Only the first reason of all ranks counts.
  virtual void fail(const std::string& /*reason*/) noexcept {}

 protected:
  const std::string& activity() const { return activity_; }

 private:
  std::string activity_ = "the start";
};

struct JoinOptions {
  // How long a rank waits for another during training, and until all have come to the start: they
  // may read their data first.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  std::chrono::milliseconds start_timeout = std::chrono::minutes(10);
};

// Whether this build has c10d with Gloo.
bool available();

// A rank on its way: it can fail for all to know, but not yet talk.
class Joining {
 public:
  virtual ~Joining() = default;
  // Waits for all ranks, and connects them if their facts are the same. Else throws RanksError,
  // naming the rank and the fact, in all of them.
  virtual std::shared_ptr<Ranks> agree_on(const Facts& facts) = 0;
  virtual void fail(const std::string& reason) noexcept = 0;
};

// Throws RanksError where the meeting point cannot be reached, e.g. since its port is taken, and
// std::runtime_error in a build without c10d.
std::unique_ptr<Joining> join(const Place& place, const JoinOptions& options = {});

}  // namespace normball::ranks
