// Image folders and packed images in `normball data`.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/data/pack_images.h"

namespace CLI {
class App;
}

namespace normball::cli {

void show_image_files(const std::string& path);

// Decodes all; names those that cannot be and throws where there are any.
void verify_image_files(const std::string& path, int threads);

struct SheetOptions {
  std::string out;  // a PNG
  int size = 160;   // pixels of an image
  std::uint64_t seed = 0;
};

// Draws what training sees: a row for each of a few images, the first as it is evaluated, the
// others augmented as for DeiT; below them a row with Mixup and one with CutMix.
void write_contact_sheet(const std::string& path, const SheetOptions& options);

void add_pack_command(CLI::App& data, int threads);

}  // namespace normball::cli
