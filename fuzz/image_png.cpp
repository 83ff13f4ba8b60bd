// PNG files: palettes, grey, alpha, 16 bits, interlaced.
#include "fuzz/image_reading.h"
#include "fuzz/image_samples.h"

namespace normball::fuzz {
namespace {

std::vector<std::string> samples() {
  return {png_file({}), png_file({.colours = PNG_COLOR_TYPE_PALETTE, .channels = 1, .bits = 4}),
          png_file({.colours = PNG_COLOR_TYPE_GRAY, .channels = 1, .bits = 1}),
          png_file({.colours = PNG_COLOR_TYPE_GRAY_ALPHA, .channels = 2, .bits = 16}),
          png_file({.colours = PNG_COLOR_TYPE_RGBA, .channels = 4, .interlaced = true})};
}

}  // namespace

const Reader reader = {"PNG", samples, read_image, 0.7};

}  // namespace normball::fuzz
