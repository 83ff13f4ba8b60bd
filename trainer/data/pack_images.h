// Turns image folders into a directory of packed images, which appears complete or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace normball::trainer::data {

struct PackOptions {
  std::string from, out;
  int short_side = 256;  // larger images are shrunk to it, smaller ones are copied; 0: all copied
  int quality = 92;      // of the JPEGs that are made
  std::int64_t shard_bytes = std::int64_t{1} << 30;
  bool skip_bad = false;
  int threads = 1;
};

struct PackResult {
  std::int64_t train = 0, validation = 0, shrunk = 0, skipped = 0;
  std::uint64_t bytes = 0;
  std::string first_bad;
};

// Called every few images with how many are done and how many there are; it may throw.
using PackProgress = std::function<void(std::int64_t done, std::int64_t all)>;

// The result is the same for any number of threads.
PackResult pack_images(const PackOptions& options, const PackProgress& progress = {});

}  // namespace normball::trainer::data
