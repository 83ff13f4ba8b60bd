// Small valid files of every format, made here from the formats' descriptions, and what bad ones
// must lead to.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "testing.h"
#include "trainer/data/bytes.h"
#include "trainer/data/data_error.h"

namespace normball::testing {

using ByteVector = std::vector<std::uint8_t>;

template <class Body>
void expect_data_error(const Body& body, const std::vector<std::string>& parts) {
  expect_error<trainer::data::DataError>(body, parts);
}

inline trainer::data::Bytes bytes_of(ByteVector bytes) {
  return trainer::data::Bytes::own(std::move(bytes));
}

inline ByteVector idx_file(const std::vector<std::uint32_t>& shape, const ByteVector& elements) {
  ByteVector file{0, 0, 8, static_cast<std::uint8_t>(shape.size())};
  for (const auto extent : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      file.push_back(static_cast<std::uint8_t>(extent >> shift));
    }
  }
  file.insert(file.end(), elements.begin(), elements.end());
  return file;
}

inline ByteVector counting(size_t size, size_t modulus = 251) {
  ByteVector bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i % modulus);
  return bytes;
}

inline ByteVector gzip(const ByteVector& plain) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  ByteVector packed(deflateBound(&stream, plain.size()) + 64);
  stream.next_in = const_cast<Bytef*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline ByteVector shard_file(const std::vector<std::uint16_t>& tokens,
                             std::int32_t magic = 20240520, std::int32_t version = 1,
                             std::int64_t count = -1) {
  ByteVector file(1024);
  const std::int32_t header[] = {
      magic, version, static_cast<std::int32_t>(count < 0 ? std::int64_t(tokens.size()) : count)};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t b = 0; b < 4; ++b) {
      file[4 * i + b] = static_cast<std::uint8_t>(static_cast<std::uint32_t>(header[i]) >> (8 * b));
    }
  }
  for (const auto token : tokens) {
    file.push_back(static_cast<std::uint8_t>(token));
    file.push_back(static_cast<std::uint8_t>(token >> 8));
  }
  return file;
}

// Records of a label and an image that is the label everywhere, but its first pixel counts.
inline ByteVector cifar10_file(int records) {
  ByteVector file;
  for (int i = 0; i < records; ++i) {
    file.push_back(static_cast<std::uint8_t>(i % 10));
    file.push_back(static_cast<std::uint8_t>(i));
    file.insert(file.end(), 3071, static_cast<std::uint8_t>(i % 10));
  }
  return file;
}

// Six merges: "he", "ll", " t", "hell", "hello", " the". Ġ is the stand-in for a space.
inline std::string toy_vocabulary() {
  return "#version: 0.2\nh e\nl l\nĠ t\nhe ll\nhell o\nĠt he\n";
}

}  // namespace normball::testing
