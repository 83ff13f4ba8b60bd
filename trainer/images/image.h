// A picture in memory, and rectangles of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace normball::trainer::images {

// Four bytes a pixel, so that a pixel is a word: red, green, blue, and one that means nothing.
struct Image {
  int width = 0, height = 0;
  std::vector<std::uint8_t> pixels;  // height x width x 4

  // What was there is undefined afterwards; memory is kept for the next picture.
  void reshape(int new_width, int new_height) {
    width = new_width;
    height = new_height;
    pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 4);
  }
  size_t stride() const { return static_cast<size_t>(width) * 4; }
  std::uint8_t* row(int y) { return pixels.data() + static_cast<size_t>(y) * stride(); }
  const std::uint8_t* row(int y) const { return pixels.data() + static_cast<size_t>(y) * stride(); }
};

// Whole pixels of a picture.
struct Region {
  int left = 0, top = 0, width = 0, height = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

// The same with borders between pixels.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};

inline Region whole(const Image& image) { return {0, 0, image.width, image.height}; }
inline Box box_of(const Region& region) {
  return {static_cast<double>(region.left), static_cast<double>(region.top),
          static_cast<double>(region.left + region.width),
          static_cast<double>(region.top + region.height)};
}

}  // namespace normball::trainer::images
