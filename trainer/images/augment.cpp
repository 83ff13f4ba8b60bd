#include "trainer/images/augment.h"

#include <algorithm>
#include <cmath>

#include "trainer/images/pixel_kernels.h"

namespace normball::trainer::images {
namespace {

double uniform(Random& random, double low, double high) {
  return low + (high - low) * random.uniform();
}
int up_to(Random& random, int most) {
  return static_cast<int>(random.below(static_cast<std::uint64_t>(most) + 1));
}
int rounded(double value) { return static_cast<int>(std::nearbyint(value)); }

constexpr int attempts = 10;

}  // namespace

Region random_part(const AugmentOptions& options, int width, int height, Random& random) {
  const double area = static_cast<double>(width) * height;
  for (int i = 0; i < attempts; ++i) {
    const double wanted = area * uniform(random, options.area_min, options.area_max);
    const double ratio =
        std::exp(uniform(random, std::log(options.ratio_min), std::log(options.ratio_max)));
    const int w = rounded(std::sqrt(wanted * ratio)), h = rounded(std::sqrt(wanted / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const int top = up_to(random, height - h), left = up_to(random, width - w);
    return {left, top, w, h};
  }
  // As much of the middle as the ratios allow.
  int w = width, h = height;
  const double ratio = static_cast<double>(width) / height;
  if (ratio < options.ratio_min) h = std::clamp(rounded(w / options.ratio_min), 1, height);
  if (ratio > options.ratio_max) w = std::clamp(rounded(h * options.ratio_max), 1, width);
  return {(width - w) / 2, (height - h) / 2, w, h};
}

bool random_operation(const AugmentOptions& options, Random& random, Step& step) {
  step.operation = static_cast<Operation>(random.below(operation_count));
  if (random.uniform() >= options.probability) return false;
  const double level =
      std::clamp(options.magnitude + options.deviation * random.normal(), 0.0, 10.0);
  const bool negative = has_direction(step.operation) && random.below(2) == 1;
  step.amount = amount_at(step.operation, level, negative, options.size);
  return true;
}

bool random_rectangle(const AugmentOptions& options, Random& random, Region& rectangle) {
  if (random.uniform() >= options.erase) return false;
  const double area = static_cast<double>(options.size) * options.size;
  for (int i = 0; i < attempts; ++i) {
    const double wanted = area * uniform(random, 0.02, 1.0 / 3);
    const double ratio = std::exp(uniform(random, std::log(0.3), -std::log(0.3)));
    const int h = rounded(std::sqrt(wanted * ratio)), w = rounded(std::sqrt(wanted / ratio));
    if (w >= options.size || h >= options.size) continue;
    const int top = up_to(random, options.size - h), left = up_to(random, options.size - w);
    rectangle = {left, top, w, h};
    return true;
  }
  return false;
}

Box middle_of(const AugmentOptions& options, int width, int height) {
  const int shorter = static_cast<int>(std::floor(options.size / options.middle));
  const auto resized = [&](int side, int other) {
    return side <= other ? shorter
                         : static_cast<int>(static_cast<std::int64_t>(shorter) * side / other);
  };
  const int w = resized(width, height), h = resized(height, width);
  const double left = rounded((w - options.size) / 2.0), top = rounded((h - options.size) / 2.0);
  const double x = static_cast<double>(width) / w, y = static_cast<double>(height) / h;
  return {left * x, top * y, (left + options.size) * x, (top + options.size) * y};
}

void Augmenter::training(FileBytes file, const std::string& name, Random random, float* out) {
  const Header header = read_header(file, name);
  const Region part = random_part(options_, header.width, header.height, random);
  const DecodedPart decoded = decode_part(file, name, part, options_.size, decoded_);
  resizer_.resize(decoded_, decoded.box, decoded.inside, options_.size, options_.size,
                  Filter::Bicubic, picture_);
  if (random.uniform() < options_.flip) mirror(picture_);
  for (int i = 0; i < options_.operations; ++i) {
    Step step{};
    if (random_operation(options_, random, step)) {
      operator_.apply(step.operation, step.amount, mean_colour, picture_);
    }
  }
  normalize(out);
  Region hole;
  if (!random_rectangle(options_, random, hole)) return;
  for (int c = 0; c < 3; ++c) {
    for (int y = hole.top; y < hole.top + hole.height; ++y) {
      float* row = out + (static_cast<std::int64_t>(c) * options_.size + y) * options_.size;
      for (int x = hole.left; x < hole.left + hole.width; ++x) {
        row[x] = static_cast<float>(random.normal());
      }
    }
  }
}

void Augmenter::evaluation(FileBytes file, const std::string& name, float* out) {
  decode(file, name, decoded_);
  resizer_.resize(decoded_, middle_of(options_, decoded_.width, decoded_.height), whole(decoded_),
                  options_.size, options_.size, Filter::Bicubic, picture_);
  normalize(out);
}

void Augmenter::normalize(float* out) const {
  const size_t n = picture_.pixels.size() / 4;
  float* const planes[3] = {out, out + n, out + 2 * n};
  float scale[3], shift[3];
  for (int c = 0; c < 3; ++c) {
    scale[c] = 1 / (255 * image_std[c]);
    shift[c] = -image_mean[c] / image_std[c];
  }
  pixel_kernels().to_planes(picture_.pixels.data(), scale, shift, planes, n);
}

}  // namespace normball::trainer::images
