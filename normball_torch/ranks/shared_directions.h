// The core's peers on ranks: directions are broadcast by their owners as they are found, while
// other LMOs still run. Internal.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "normball/peers.h"
#include "normball_torch/ranks/ranks.h"

namespace normball::ranks {

// All ranks must call c10d in the same order: a direction is sent when all before it in
// sending_order() were.
template <class T>
class SharedDirections final : public Peers<T> {
 public:
  SharedDirections(std::shared_ptr<Ranks> ranks, std::span<const Layer> layers,
                   std::vector<int> owners);

  int rank() const override { return ranks_->rank(); }
  int size() const override { return ranks_->size(); }
  int owner(size_t layer) const override { return owners_[layer]; }
  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    ranks_->gather(own, all);
  }
  void start(std::span<const MatrixView<T>> directions) override;
  void found(size_t layer) override;
  void wait() override;

 private:
  // A copy of a matrix that is not contiguous, and where it has to be put back, if so.
  struct Copy {
    ::torch::Tensor tensor;
    MatrixView<T> to;
  };

  void send_on(bool all);
  void send(size_t layer);

  std::shared_ptr<Ranks> ranks_;
  std::vector<int> owners_;
  std::vector<size_t> order_;
  std::vector<MatrixView<T>> directions_;

  std::mutex mutex_;  // of what follows: found() comes from threads
  std::vector<char> found_;
  size_t next_ = 0;  // in order_
  std::vector<std::unique_ptr<Pending>> sent_;
  std::vector<Copy> copies_;
  std::exception_ptr failure_;
};

}  // namespace normball::ranks
