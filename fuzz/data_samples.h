// The tests' small data files, as the text that fuzz targets take.
#pragma once

#include <string>
#include <string_view>

#include "tests/trainer/data/data_samples.h"

namespace normball::fuzz {

inline std::string text_of(const testing::ByteVector& bytes) {
  return {bytes.begin(), bytes.end()};
}

inline trainer::data::Bytes bytes_of(std::string_view file) {
  return testing::bytes_of({file.begin(), file.end()});
}

}  // namespace normball::fuzz
