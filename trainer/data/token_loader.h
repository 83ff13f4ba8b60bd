// Batches of token windows for language models.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/cursor.h"
#include "trainer/data/token_data.h"

namespace normball::trainer::data {

struct TokenBatch {
  std::int64_t rows = 0, length = 0;
  std::vector<std::int64_t> inputs;   // rows x length
  std::vector<std::int64_t> targets;  // rows x length: each input's next token
  DataCursor after;                   // where the data stands after this batch
};

struct TokenLoaderOptions {
  std::int64_t batch = 8;
  std::int64_t length = 256;
};

// Every epoch cuts the data into windows that do not overlap, from a random offset below `length`,
// and shows them in random order. So an epoch shows every token once (but the few before the offset
// and at the end), as sequential reading does, without its order; and windows differ from epoch to
// epoch, as with nanoGPT's random offsets, which in one pass show a third of the tokens not at all.
class TokenLoader {
 public:
  // The cursor is a new one with only its seed set, or one from a checkpoint.
  TokenLoader(TokenData data, TokenLoaderOptions options, DataCursor cursor);

  // Fills the batch, whose buffers are reused, and moves on. Always whole batches: one may end an
  // epoch and start the next.
  void next(TokenBatch& batch) { next(batch, 0, options_.batch); }
  // Only windows [first, end) of the next batch; moves on by all of it.
  void next(TokenBatch& batch, std::int64_t first, std::int64_t end);
  const DataCursor& cursor() const { return cursor_; }
  std::int64_t windows_per_epoch() const { return windows_; }

 private:
  void start_epoch();

  TokenData data_;
  TokenLoaderOptions options_;
  std::int64_t windows_ = 0;
  DataCursor cursor_;
  std::int64_t offset_ = 0;  // of the epoch
  std::vector<std::uint32_t> order_;
  std::vector<std::int64_t> window_;
};

// The same windows at every evaluation, whatever the training's randomness: all that fit without
// overlap, or, where at most `max_windows` are wanted, that many spread evenly over the data.
class TokenEvaluation {
 public:
  TokenEvaluation(TokenData data, std::int64_t batch, std::int64_t length,
                  std::int64_t max_windows);

  std::int64_t windows() const { return windows_; }
  std::int64_t batches() const { return (windows_ + batch_ - 1) / batch_; }
  // The last batch may have fewer rows.
  void fill(std::int64_t index, TokenBatch& batch) const;

 private:
  TokenData data_;
  std::int64_t batch_, length_, available_, windows_;
};

}  // namespace normball::trainer::data
