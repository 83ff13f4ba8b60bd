// WebP files, lossy and lossless, with and without alpha.
#include "fuzz/image_reading.h"
#include "fuzz/image_samples.h"

namespace normball::fuzz {
namespace {

std::vector<std::string> samples() {
  return {webp_file(false, false), webp_file(false, true), webp_file(true, false),
          webp_file(true, true)};
}

}  // namespace

const Reader reader = {"WebP", samples, read_image, 0.3};

}  // namespace normball::fuzz
