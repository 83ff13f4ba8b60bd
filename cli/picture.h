// Small images in a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/image_set.h"

namespace normball::cli {

// The images side by side, two rows of pixels to a line: in colour by half blocks, otherwise by
// characters of growing darkness.
std::string draw_images(const trainer::data::ImageSet& images,
                        const std::vector<std::int64_t>& which, bool color);

}  // namespace normball::cli
