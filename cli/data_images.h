// Image folders and packed images in `normball data`.
#pragma once

#include <string>

#include "trainer/data/pack_images.h"

namespace CLI {
class App;
}

namespace normball::cli {

void show_image_files(const std::string& path);

// Decodes all; names those that cannot be and throws where there are any.
void verify_image_files(const std::string& path, int threads);

void add_pack_command(CLI::App& data, int threads);

}  // namespace normball::cli
