// CIFAR-10's binary files.
#include "fuzz/data_samples.h"
#include "fuzz/reader.h"
#include "trainer/data/image_set.h"

namespace normball::fuzz {
namespace {

std::vector<std::string> samples() {
  return {text_of(testing::cifar10_file(1)), text_of(testing::cifar10_file(2))};
}

void read(std::string_view file) {
  const trainer::data::ImageSet images = trainer::data::parse_cifar10(bytes_of(file), "file");
  std::int64_t counted = 0;
  for (const auto count : trainer::data::class_histogram(images, 10)) counted += count;
  require(counted == images.count, "every label is a class");
}

}  // namespace

const Reader reader = {"CIFAR-10", samples, read, 0.5};

}  // namespace normball::fuzz
