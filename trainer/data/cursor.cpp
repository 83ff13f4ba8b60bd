#include "trainer/data/cursor.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "normball/base/error.h"

namespace normball::trainer::data {
namespace {
constexpr const char* where = "DataCursor";
}

std::map<std::string, std::int64_t> entries_of(const DataCursor& cursor) {
  return {{"seed", static_cast<std::int64_t>(cursor.seed)},
          {"epoch", cursor.epoch},
          {"position", cursor.position},
          {"items", cursor.items}};
}

DataCursor cursor_of(const std::map<std::string, std::int64_t>& entries) {
  const auto entry = [&](const char* name) {
    const auto found = entries.find(name);
    if (found == entries.end()) throw_invalid(where, "has no '", name, "'");
    return found->second;
  };
  const auto count = [&](const char* name) {
    const std::int64_t value = entry(name);
    if (value < 0) throw_invalid(where, "'", name, "' must be at least 0, got ", value);
    return value;
  };
  const DataCursor cursor{static_cast<std::uint64_t>(entry("seed")), count("epoch"),
                          count("position"), count("items")};
  if (cursor.position > cursor.items) {
    throw_invalid(where, "'position' is ", cursor.position, ", beyond the ", cursor.items,
                  " items");
  }
  return cursor;
}

Random random_for(std::uint64_t seed, Purpose purpose, std::int64_t a, std::int64_t b) {
  std::uint64_t state = Random(seed).next();
  for (const std::uint64_t part : {static_cast<std::uint64_t>(purpose),
                                   static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)}) {
    state = Random(state ^ part).next();
  }
  return Random(state);
}

std::vector<std::uint32_t> shuffled_order(std::uint64_t seed, std::int64_t epoch,
                                          std::int64_t items) {
  if (items < 0 || items > std::int64_t{std::numeric_limits<std::uint32_t>::max()}) {
    throw_invalid("shuffled_order", "at most 2^32 - 1 items can be shuffled, got ", items,
                  "; use a longer sequence length");
  }
  std::vector<std::uint32_t> order(static_cast<size_t>(items));
  std::iota(order.begin(), order.end(), 0u);
  Random random = random_for(seed, Purpose::Shuffle, epoch);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

void attach(DataCursor& cursor, std::int64_t items) {
  if (cursor.items == 0 && cursor.epoch == 0 && cursor.position == 0) cursor.items = items;
  if (cursor.items != items) {
    throw_invalid(where, "belongs to data with ", cursor.items, " items, but this data has ", items,
                  "; resume with the same data and sequence length");
  }
  if (cursor.epoch < 0 || cursor.position < 0 || cursor.position > items) {
    throw_invalid(where, "is at epoch ", cursor.epoch, ", position ", cursor.position,
                  ", which is outside the ", items, " items");
  }
}

}  // namespace normball::trainer::data
