// dataset.json beside token shards, and the cursor of a checkpoint.
#include <nlohmann/json.hpp>

#include "fuzz/reader.h"
#include "trainer/data/cursor.h"
#include "trainer/data/token_data.h"

namespace normball::fuzz {
namespace {

std::vector<std::string> samples() {
  return {trainer::data::to_json(trainer::data::ShardDescription{"bytes", 256, 12345, 678}),
          trainer::data::to_json(trainer::data::DataCursor{1, 2, 3, 4}).dump()};
}

void read(std::string_view file) {
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (json.is_object() && json.contains("epoch")) {
    const trainer::data::DataCursor cursor = trainer::data::cursor_from_json(json);
    require(cursor.position <= cursor.items, "the cursor lies in the data");
  } else {
    const auto description = trainer::data::parse_shard_description(file, "file");
    require(description.vocabulary > 0, "there is a vocabulary");
  }
}

}  // namespace

const Reader reader = {"dataset.json", samples, read, 0.5};

}  // namespace normball::fuzz
