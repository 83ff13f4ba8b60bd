// Which items of every batch a process trains on, where several train together. The batches are
// those of one process, whatever their number.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "trainer/data/cursor.h"

namespace normball::trainer::data {

// Items [first, end) of one of the batch's micro-batches.
struct Piece {
  std::int64_t part = 0;  // which micro-batch
  std::int64_t first = 0, end = 0;

  std::int64_t items() const { return end - first; }
  friend bool operator==(const Piece&, const Piece&) = default;
};

// A batch of `parts` micro-batches of `micro` items, divided evenly over the processes in the order
// of its items; process `rank` gets these. With `whole`, no micro-batch is cut.
std::vector<Piece> pieces_of(std::int64_t parts, std::int64_t micro, int rank, int processes,
                             bool whole = false);

// A loader of micro-batches that delivers only the pieces, of batch after batch; where there are
// none, all micro-batches as they are.
template <class Loader>
class PieceLoader {
 public:
  PieceLoader(Loader loader, std::int64_t parts, std::vector<Piece> pieces)
      : loader_(std::move(loader)), parts_(parts), pieces_(std::move(pieces)) {}

  template <class Batch>
  void next(Batch& batch) {
    if (pieces_.empty()) return loader_.next(batch);
    const Piece piece = pieces_[next_++];
    skip_to(piece.part, batch);
    loader_.next(batch, piece.first, piece.end);
    ++part_;
    if (next_ < pieces_.size()) return;
    // The last one stands for the rest: after it the data is where it is for all processes.
    Batch rest;
    skip_to(parts_, rest);
    batch.after = loader_.cursor();
    next_ = 0;
    part_ = 0;
  }
  const DataCursor& cursor() const { return loader_.cursor(); }

 private:
  template <class Batch>
  void skip_to(std::int64_t part, Batch& batch) {
    for (; part_ < part; ++part_) loader_.next(batch, 0, 0);
  }

  Loader loader_;
  std::int64_t parts_;
  std::vector<Piece> pieces_;
  size_t next_ = 0;        // of pieces_
  std::int64_t part_ = 0;  // of the loader, in the batch
};

}  // namespace normball::trainer::data
