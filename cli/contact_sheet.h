// A picture of augmented images: what training sees.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace normball::cli {

struct SheetOptions {
  std::string out;  // a PNG
  int size = 160;   // pixels of an image, without a configuration
  std::uint64_t seed = 0;
  std::string config = {};  // a preset or file; empty: as for DeiT
  std::vector<std::string> settings = {};
};

// A row for each of a few images, the first as it is evaluated, the others augmented; below them
// mixed ones: as for DeiT a row with Mixup and one with CutMix, or a row as the configuration has
// it.
void write_contact_sheet(const std::string& path, const SheetOptions& options);

}  // namespace normball::cli
