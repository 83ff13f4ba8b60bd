// What the targets for images do with a file: all that training and evaluation do.
#pragma once

#include <string_view>

#include "fuzz/reader.h"
#include "trainer/images/augment.h"

namespace normball::fuzz {

inline void read_image(std::string_view text) {
  using namespace trainer::images;
  const FileBytes file(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  const Header header = read_header(file, "file");
  require(std::int64_t{header.width} * header.height <= max_pixels, "the limit holds");
  // A part first: it may be fine where the whole is damaged.
  const Region part{header.width / 3, header.height / 3, (header.width + 1) / 2,
                    (header.height + 1) / 2};
  Image image;
  const DecodedPart decoded = decode_part(file, "file", part, 4, image);
  require(decoded.inside.left >= 0 && decoded.inside.top >= 0 &&
              decoded.inside.left + decoded.inside.width <= image.width &&
              decoded.inside.top + decoded.inside.height <= image.height,
          "the part is inside of what was decoded");
  std::vector<float> pixels(3 * 16 * 16);
  Augmenter augmenter({.size = 16, .operations = 3, .erase = 1});
  augmenter.training(file, "file", Random(text.size()), pixels.data());
  decode(file, "file", image);
  require(image.width == header.width && image.height == header.height, "the header's size");
  augmenter.evaluation(file, "file", pixels.data());
}

}  // namespace normball::fuzz
