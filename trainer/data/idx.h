// IDX, the format of MNIST and Fashion-MNIST: two zero bytes, a type, the number of dimensions,
// the dimensions as big-endian 32-bit numbers, then the elements. Bytes (type 8) are read, plain
// or gzip-compressed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/bytes.h"

namespace normball::trainer::data {

struct IdxArray {
  std::vector<std::int64_t> shape;
  Bytes data;  // row-major, one byte an element; a plain file stays mapped
};

IdxArray read_idx(const std::string& path);

// `name` is the file named in errors.
IdxArray parse_idx(const Bytes& file, const std::string& name);

// 60000x28x28
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace normball::trainer::data
