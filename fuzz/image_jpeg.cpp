// JPEG files: sequential and progressive, grey, colours and CMYK.
#include "fuzz/image_reading.h"
#include "fuzz/image_samples.h"

namespace normball::fuzz {
namespace {

std::vector<std::string> samples() {
  return {jpeg_file({}), jpeg_file({.progressive = true}), jpeg_file({.restart = 2, .sampling = 1}),
          jpeg_file({.colours = JCS_GRAYSCALE, .channels = 1, .sampling = 1}),
          jpeg_file({.colours = JCS_CMYK, .channels = 4, .sampling = 1})};
}

}  // namespace

const Reader reader = {"JPEG", samples, read_image, 0.4};

}  // namespace normball::fuzz
