#include "trainer/images/resize.h"

#include <algorithm>
#include <cmath>

#include "trainer/images/pixel_kernels.h"

namespace normball::trainer::images {
namespace {

double weight_of(Filter filter, double x) {
  x = std::abs(x);
  if (filter == Filter::Bilinear) return x < 1 ? 1 - x : 0;
  constexpr double a = -0.5;  // Keys' cubic
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

}  // namespace

// The filter is as wide as an output pixel, so that none of the input is passed over.
void Resizer::Taps::set(double from, double to, int begin, int end, int outputs, Filter filter) {
  const double scale = (to - from) / outputs, wide = std::max(scale, 1.0);
  const double support = (filter == Filter::Bicubic ? 2.0 : 1.0) * wide;
  most = 2 * static_cast<int>(std::ceil(support)) + 1;
  const auto n = static_cast<size_t>(outputs);
  first.resize(n);
  count.resize(n);
  weights.resize(n * static_cast<size_t>(most));
  exact.resize(static_cast<size_t>(most));
  for (size_t i = 0; i < n; ++i) {
    const double centre = from + (static_cast<double>(i) + 0.5) * scale;
    // Rounded towards 0 as in Pillow: what is below 0 is cut off anyway.
    const int low = std::max(begin, static_cast<int>(centre - support + 0.5));
    const int high = std::min(end, static_cast<int>(centre + support + 0.5));
    double sum = 0;
    for (int k = low; k < high; ++k) {
      sum += exact[static_cast<size_t>(k - low)] =
          weight_of(filter, (k - centre + 0.5) * (1 / wide));
    }
    first[i] = low;
    count[i] = std::max(0, high - low);
    for (int k = 0; k < count[i]; ++k) {
      double weight = exact[static_cast<size_t>(k)];
      if (sum != 0) weight /= sum;
      weights[i * static_cast<size_t>(most) + static_cast<size_t>(k)] =
          static_cast<std::int32_t>(weight * (1 << 22) + (weight < 0 ? -0.5 : 0.5));
    }
  }
}

void Resizer::resize(const Image& source, const Box& box, const Region& inside, int width,
                     int height, Filter filter, Image& out) {
  across_.set(box.left, box.right, inside.left, inside.left + inside.width, width, filter);
  down_.set(box.top, box.bottom, inside.top, inside.top + inside.height, height, filter);
  const auto& kernels = pixel_kernels();
  const int top = down_.first.front();
  const int bottom = std::max(top + 1, down_.first.back() + down_.count.back());
  middle_.reshape(width, bottom - top);
  const TapsView taps{across_.first.data(), across_.count.data(), across_.weights.data(), width,
                      across_.most};
  for (int y = top; y < bottom; y += 4) {
    const std::uint8_t* rows[4];
    std::uint8_t* to[4];
    for (int k = 0; k < 4; ++k) {  // the last rows several times, where fewer are left
      const int row = std::min(y + k, bottom - 1);
      rows[k] = source.row(row);
      to[k] = middle_.row(row - top);
    }
    kernels.across(rows, to, taps);
  }
  out.reshape(width, height);
  for (int y = 0; y < height; ++y) {
    const auto i = static_cast<size_t>(y);
    kernels.down(middle_.row(down_.first[i] - top), middle_.stride(), down_.count[i],
                 down_.weights.data() + i * static_cast<size_t>(down_.most), out.row(y),
                 out.stride());
  }
}

}  // namespace normball::trainer::images
