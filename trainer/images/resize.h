// Resizing with antialiasing, bit for bit as Pillow's resize does it.
#pragma once

#include <vector>

#include "trainer/images/image.h"

namespace normball::trainer::images {

enum class Filter : std::uint8_t { Bilinear, Bicubic };

// Buffers that are kept from one picture to the next; one for each thread.
class Resizer {
 public:
  // Makes `width` x `height` pixels of the box. Pixels outside of `inside` are not looked at.
  void resize(const Image& source, const Box& box, const Region& inside, int width, int height,
              Filter filter, Image& out);
  void resize(const Image& source, int width, int height, Filter filter, Image& out) {
    resize(source, box_of(whole(source)), whole(source), width, height, filter, out);
  }

 private:
  struct Taps {
    std::vector<int> first, count;
    std::vector<std::int32_t> weights;
    std::vector<double> exact;
    int most = 0;
    void set(double from, double to, int begin, int end, int outputs, Filter filter);
  };

  Taps across_, down_;
  Image middle_;
};

}  // namespace normball::trainer::images
