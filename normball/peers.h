// Processes that take every step together. Each has all weights and the same averaged gradients;
// the dear directions (spectral norms, a user's own) are found by one process each, its owner,
// which alone keeps their momentum, and are sent to the others. Every process then has all
// directions and the same s and η, and moves all weights itself: to the bit what one process alone
// would do.
//
// What is done in common is decided in the core; how bytes travel is the driver's: MPI, c10d, or
// threads that stand for processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "normball/product_norm.h"

namespace normball {

// The owner of a layer whose direction is a cheap function of the average: every process has the
// gradient and finds it for itself, so nothing is sent.
inline constexpr int every_process = -1;

// An owner for each layer: every_process where the direction is cheap; the others longest first,
// always to the process with the least to do, by the same estimate that orders a step's work.
// Layers with the same entry in `tensors` (one for each layer; empty: all differ) stay together.
// The layers with the norms that the method gives them, if it does: Optimizer::layers().
std::vector<int> share_layers(std::span<const Layer> layers, int processes,
                              std::span<const size_t> tensors = {});

// The order in which directions are best sent, the same in all processes: each owner's longest
// first, the owners in turn. Only layers with an owner.
std::vector<size_t> sending_order(std::span<const Layer> layers, std::span<const int> owners);

// Called by one step at a time, in the same order in all processes. What it throws ends the step;
// processes that did not throw must be made to.
template <class T>
class Peers {
 public:
  virtual ~Peers() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int owner(size_t layer) const = 0;  // as share_layers() has it; always the same

  // all <- the bytes of every process, in the order of ranks. Also says to all that this process
  // has come so far.
  virtual void gather(std::span<const std::byte> own, std::span<std::byte> all) = 0;

  // A pass over the layers begins: where the directions of those with an owner are, or have to be
  // when wait() returns. Empty where there is nothing to send.
  virtual void start(std::span<const MatrixView<T>> directions) = 0;
  // This process has found one. From any thread, one call at a time or several; must not throw.
  virtual void found(size_t layer) = 0;
  // Sends what was not found as it is, since the step is lost then; returns when all have arrived.
  virtual void wait() = 0;
};

}  // namespace normball
