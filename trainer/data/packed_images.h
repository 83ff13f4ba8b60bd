// Images in a few large files, for disks that are slow with many small ones. A directory has
//   images.json           the classes, and each file with its size and CRC-32C
//   train_000000.images   compressed images, one after the other, exactly as in files of their own
//   train.index           for each image 24 bytes, little-endian: shard and label (32 bits each),
//                         first byte and number of bytes (64 bits each)
// and the same for val. Shards are mapped, not read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/image_files.h"

namespace normball::trainer::data {

struct PackedFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  friend bool operator==(const PackedFile&, const PackedFile&) = default;
};

struct PackedPart {
  PackedFile index = {};
  std::vector<PackedFile> shards = {};
  friend bool operator==(const PackedPart&, const PackedPart&) = default;
};

struct PackedDescription {
  std::vector<std::string> classes;
  PackedPart train = {}, validation = {};  // the second without shards where there is none
  friend bool operator==(const PackedDescription&, const PackedDescription&) = default;
};

std::string to_json(const PackedDescription& description);
// `name` is the file named in errors.
PackedDescription parse_packed_description(std::string_view json, const std::string& name);

struct PackedRecord {
  std::uint32_t shard = 0, label = 0;
  std::uint64_t first = 0, bytes = 0;
};
static_assert(sizeof(PackedRecord) == 24);

// Compares every file's checksum, which reads everything.
void check_packed_images(const std::string& directory);

}  // namespace normball::trainer::data
