#include "trainer/data/mix.h"

#include <algorithm>
#include <cmath>

namespace normball::trainer::data {
namespace {

// The logarithm of a Gamma(a, 1) variable (Marsaglia and Tsang 2000): for small a the variable
// itself would often be 0.
double log_gamma_variable(double a, Random& random) {
  if (a < 1) {
    const double boost = std::log(1 - random.uniform()) / a;
    return log_gamma_variable(a + 1, random) + boost;
  }
  const double d = a - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(1 - random.uniform()) < x * x / 2 + d - d * v + d * std::log(v)) {
      return std::log(d) + std::log(v);
    }
  }
}

}  // namespace

double random_beta(double a, Random& random) {
  const double x = log_gamma_variable(a, random), y = log_gamma_variable(a, random);
  return 1 / (1 + std::exp(y - x));
}

Mix random_mix(const MixOptions& options, int width, int height, Random& random) {
  Mix mix;
  if (!options.any()) return mix;
  mix.cut = options.mixup <= 0 || (options.cutmix > 0 && random.uniform() < 0.5);
  mix.weight = random_beta(mix.cut ? options.cutmix : options.mixup, random);
  if (!mix.cut) return mix;
  const double side = std::sqrt(1 - mix.weight);
  const auto range = [&](int size) {
    const int half = static_cast<int>(size * side) / 2;
    const int centre = static_cast<int>(random.below(static_cast<std::uint64_t>(size)));
    return std::pair{std::max(0, centre - half), std::min(size, centre + half)};
  };
  const auto [top, bottom] = range(height);
  const auto [left, right] = range(width);
  mix.box = {left, top, right - left, bottom - top};
  mix.weight = 1 - static_cast<double>(mix.box.width) * mix.box.height /
                       (static_cast<double>(width) * height);
  return mix;
}

void mix_images(const Mix& mix, int width, int height, float* a, float* b) {
  const auto plane = static_cast<std::int64_t>(width) * height;
  if (!mix.cut) {
    const auto own = static_cast<float>(mix.weight), other = static_cast<float>(1 - mix.weight);
    for (std::int64_t i = 0; i < 3 * plane; ++i) {
      const float x = a[i], y = b[i];
      a[i] = own * x + other * y;
      b[i] = own * y + other * x;
    }
    return;
  }
  for (int c = 0; c < 3; ++c) {
    for (int y = mix.box.top; y < mix.box.top + mix.box.height; ++y) {
      const std::int64_t begin = c * plane + static_cast<std::int64_t>(y) * width + mix.box.left;
      std::swap_ranges(a + begin, a + begin + mix.box.width, b + begin);
    }
  }
}

}  // namespace normball::trainer::data
