// Decompresses gzip data piece by piece, so that the caller decides how much memory it may take.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "trainer/data/bytes.h"

namespace normball::trainer::data {

bool is_gzip(std::span<const std::uint8_t> bytes);

class GzipReader {
 public:
  // `name` is the file named in errors.
  GzipReader(Bytes compressed, std::string name);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  // Fills `out` from the front and returns how many bytes there were: fewer only at the end, by
  // when the checksum has been compared. Damaged or truncated data is a DataError.
  size_t read(std::span<std::uint8_t> out);

  // No deflate stream expands by more (zlib's documentation gives 1032:1).
  static constexpr size_t max_ratio = 1032;

 private:
  struct Stream;
  void refill();
  bool next_member();

  Bytes compressed_;
  std::string name_;
  size_t fed_ = 0;
  bool ended_ = false;
  std::unique_ptr<Stream> stream_;
};

}  // namespace normball::trainer::data
