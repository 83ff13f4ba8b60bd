// The description of packed images.
#include "trainer/data/packed_images.h"

#include "fuzz/reader.h"

namespace normball::fuzz {
namespace {

std::vector<std::string> samples() {
  trainer::data::PackedDescription description;
  description.classes = {"ant", "bee"};
  description.train.index = {"train.index", 48, 7};
  description.train.shards = {{"train_000000.images", 5, 9}, {"train_000001.images", 6, 3}};
  std::vector<std::string> files = {trainer::data::to_json(description)};
  description.validation.index = {"val.index", 24, 1};
  description.validation.shards = {{"val_000000.images", 9, 2}};
  files.push_back(trainer::data::to_json(description));
  return files;
}

void read(std::string_view file) {
  const auto description = trainer::data::parse_packed_description(file, "file");
  require(trainer::data::parse_packed_description(trainer::data::to_json(description), "file") ==
              description,
          "what is written is what is read");
}

}  // namespace

const Reader reader = {"images.json", samples, read, 0.5};

}  // namespace normball::fuzz
