// dataset.json beside token shards.
#include "fuzz/reader.h"
#include "trainer/data/token_data.h"

namespace normball::fuzz {
namespace {

std::vector<std::string> samples() {
  return {trainer::data::to_json(trainer::data::ShardDescription{"bytes", 256, 12345, 678})};
}

void read(std::string_view file) {
  const auto description = trainer::data::parse_shard_description(file, "file");
  require(description.vocabulary > 0, "there is a vocabulary");
}

}  // namespace

const Reader reader = {"dataset.json", samples, read, 0.5};

}  // namespace normball::fuzz
