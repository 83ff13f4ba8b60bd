#include "trainer/data/cursor.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "normball/error.h"

namespace normball::trainer::data {
namespace {
constexpr const char* where = "DataCursor";
}

nlohmann::json to_json(const DataCursor& cursor) {
  return {{"seed", cursor.seed},
          {"epoch", cursor.epoch},
          {"position", cursor.position},
          {"items", cursor.items}};
}

DataCursor cursor_from_json(const nlohmann::json& json) {
  if (!json.is_object()) detail::invalid(where, "must be a JSON object");
  const auto count = [&](const char* key) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_number_integer() ||
        (found->is_number_unsigned() &&
         found->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) ||
        found->get<std::int64_t>() < 0) {
      detail::invalid(where, "'", key, "' must be a whole number of at least 0");
    }
    return found->get<std::int64_t>();
  };
  const auto seed = json.find("seed");
  if (seed == json.end() || !seed->is_number_unsigned()) {
    detail::invalid(where, "'seed' must be a whole number of at least 0");
  }
  if (json.size() != 4) {
    detail::invalid(where, "has ", json.size(), " keys; it has seed, epoch, position and items");
  }
  const DataCursor cursor{seed->get<std::uint64_t>(), count("epoch"), count("position"),
                          count("items")};
  if (cursor.position > cursor.items) {
    detail::invalid(where, "'position' is ", cursor.position, ", beyond the ", cursor.items,
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
    detail::invalid("shuffled_order", "at most 2^32 - 1 items can be shuffled, got ", items,
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
    detail::invalid(where, "belongs to data of ", cursor.items, " items, but these are ", items,
                    "; resume with the same data and sequence length");
  }
  if (cursor.epoch < 0 || cursor.position < 0 || cursor.position > items) {
    detail::invalid(where, "stands at epoch ", cursor.epoch, ", position ", cursor.position,
                    ", which is outside the ", items, " items");
  }
}

}  // namespace normball::trainer::data
