// IDX files, plain and compressed.
#include "trainer/data/idx.h"

#include "fuzz/data_samples.h"
#include "fuzz/reader.h"

namespace normball::fuzz {
namespace {

std::vector<std::string> samples() {
  const auto images = testing::idx_file({5, 4, 6}, testing::counting(120));
  return {text_of(images), text_of(testing::gzip(images)),
          text_of(testing::idx_file({7}, testing::counting(7)))};
}

void read(std::string_view file) {
  const trainer::data::IdxArray array = trainer::data::parse_idx(bytes_of(file), "file");
  std::int64_t product = 1;
  for (const auto extent : array.shape) product *= extent;
  require(product == static_cast<std::int64_t>(array.data.size()), "the shape fits the data");
}

}  // namespace

const Reader reader = {"IDX", samples, read, 0.5};

}  // namespace normball::fuzz
