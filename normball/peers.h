// Processes that take every step together. Each has all weights and the same averaged gradients;
// the dear directions (spectral norms, a user's own) are found by one process each, its owner,
// which alone keeps their momentum, and are sent to the others. Of a large layer with the sign norm
// each process has some rows, and sends the signs of their average. Every process then has all
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

// The owner of a layer with the sign norm whose rows are divided over all processes: each finds and
// keeps the average of its own, those of rows_of().
inline constexpr int by_rows = -2;

struct Rows {
  Index begin = 0, end = 0;
  Index count() const { return end - begin; }
};

// Perhaps none. They are cut where the sums of a layer are cut anyway, so that s stays the same to
// the bit.
Rows rows_of(const Shape& shape, int process, int processes);

// How many elements of a layer's gradient each process reads: process 0 the first so many, the next
// those that follow. Empty where every process reads all of them.
std::vector<Index> gradient_parts(const Shape& shape, int owner, int processes);
// Up to so many processes send a gradient to its owner directly, which sends nothing that need not
// be sent. More would keep the owner receiving: a sum around a ring, and 1/processes more.
inline constexpr int most_direct_processes = 12;

// An owner for each layer: by_rows for large ones with the sign norm, every_process for others
// whose direction is cheap; the rest longest first, always to the process with the least to do, by
// the same estimate that orders a step's work. Layers with the same entry in `tensors` (one for
// each layer; empty: all differ) stay together.
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
  // As share_layers() has it, or every_process instead of by_rows; always the same.
  virtual int owner(size_t layer) const = 0;

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
