// Pictures to files.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/images/image.h"

namespace normball::trainer::images {

std::vector<std::uint8_t> encode_jpeg(const Image& image, int quality);
std::vector<std::uint8_t> encode_png(const Image& image);

}  // namespace normball::trainer::images
