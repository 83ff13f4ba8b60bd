// The processes that train a run together: one alone, or the ranks that a launcher started
// (docs/distributed.md). All of them call the same functions in the same order; alone, each is its
// own answer at no cost.
#pragma once

#include <torch/torch.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "normball_torch/ranks/ranks.h"

namespace normball::trainer::train {

class Team {
 public:
  Team() = default;  // one process alone
  explicit Team(const ranks::Place& place);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // As the environment says it. NORMBALL_TIMEOUT is how many seconds a rank waits for another.
  static std::shared_ptr<Team> find();

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  bool alone() const { return size() == 1; }
  bool leads() const { return rank() == 0; }  // writes what is written
  const ranks::Place& place() const { return place_; }

  // Until then a rank can only fail. Throws in all where a fact differs in one.
  void agree_on(const ranks::Facts& facts);
  const std::shared_ptr<ranks::Ranks>& ranks() const { return ranks_; }  // null where alone

  // What this rank is at, and why it ends, for the messages of all; after fail() nothing else, and
  // nobody else may hold ranks().
  void set_activity(std::string activity);
  void fail(const std::string& reason) noexcept;

  // One of each rank, in their order.
  template <class T>
  std::vector<T> gather(const T& own) const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(static_cast<size_t>(size()), own);
    if (ranks_) {
      ranks_->gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
    }
    return all;
  }
  bool any(bool own) const;
  // Throws in all ranks unless the texts are the same: "rank 2 has another WHAT: '...'; REMEDY".
  void require_same(const std::string& what, const std::string& text,
                    const std::string& remedy) const;

  // In place, contiguous: the sum over all ranks; what rank 0 has.
  void sum(torch::Tensor tensor) const;
  void copy_from_first(const torch::Tensor& tensor) const;

 private:
  ranks::Place place_;
  std::unique_ptr<ranks::Joining> joining_;
  std::shared_ptr<ranks::Ranks> ranks_;
};

// How many threads each of the processes on this machine uses where nobody says it: its part of the
// cores, unless it is bound to some already.
int threads_in(const ranks::Place& place);

}  // namespace normball::trainer::train
