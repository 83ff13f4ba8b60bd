// Where a run stands in its data. It is part of a checkpoint: with the same data and options, a
// loader set to it delivers the same batches, bit for bit, as one that never stopped.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "normball/random.h"

namespace normball::trainer::data {

struct DataCursor {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t position = 0;  // items (images or windows) of this epoch already delivered
  std::int64_t items = 0;     // of an epoch: a checkpoint of other data is refused

  friend bool operator==(const DataCursor&, const DataCursor&) = default;
};

// As a checkpoint has it: numbers by name.
std::map<std::string, std::int64_t> entries_of(const DataCursor& cursor);
// A missing, negative or impossible value is std::invalid_argument; entries of other names are
// someone else's.
DataCursor cursor_of(const std::map<std::string, std::int64_t>& entries);

// Independent randomness for a purpose, and a number or two: nothing depends on what was drawn
// before, so any batch can be made by itself, by any thread.
enum class Purpose : std::uint64_t { Shuffle = 1, Offset = 2, Flip = 3, Augment = 4, Mix = 5 };
Random random_for(std::uint64_t seed, Purpose purpose, std::int64_t a, std::int64_t b = 0);

// 0, ..., items - 1 in the random order of an epoch (Fisher and Yates).
std::vector<std::uint32_t> shuffled_order(std::uint64_t seed, std::int64_t epoch,
                                          std::int64_t items);

// Throws std::invalid_argument unless the cursor is one of `items` items; sets it if it is new.
void attach(DataCursor& cursor, std::int64_t items);

}  // namespace normball::trainer::data
