#include "trainer/images/operations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "trainer/images/pixel_kernels.h"

namespace normball::trainer::images {
namespace {

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::int64_t, 256>;

std::uint8_t byte(double value) {
  return static_cast<std::uint8_t>(std::clamp(static_cast<int>(value), 0, 255));
}

template <class Value>
Table table_of(const Value& value) {
  Table table;
  for (int i = 0; i < 256; ++i) table[static_cast<size_t>(i)] = byte(value(i));
  return table;
}

void look_up(Image& image, const Table& red, const Table& green, const Table& blue) {
  for (size_t i = 0; i < image.pixels.size(); i += 4) {
    image.pixels[i] = red[image.pixels[i]];
    image.pixels[i + 1] = green[image.pixels[i + 1]];
    image.pixels[i + 2] = blue[image.pixels[i + 2]];
  }
}

std::array<Histogram, 3> histograms(const Image& image) {
  std::array<std::array<std::uint32_t, 256>, 3> counts{};
  for (size_t i = 0; i < image.pixels.size(); i += 4) {
    for (size_t c = 0; c < 3; ++c) ++counts[c][image.pixels[i + c]];
  }
  std::array<Histogram, 3> result;
  for (size_t c = 0; c < 3; ++c) std::ranges::copy(counts[c], result[c].begin());
  return result;
}

Table stretched(const Histogram& counts) {
  int low = 0, high = 255;
  while (low < 255 && counts[static_cast<size_t>(low)] == 0) ++low;
  while (high > 0 && counts[static_cast<size_t>(high)] == 0) --high;
  if (high <= low) return table_of([](int i) { return i; });
  const double scale = 255.0 / (high - low), offset = -low * scale;
  return table_of([&](int i) { return i * scale + offset; });
}

Table equalized(const Histogram& counts) {
  std::int64_t all = 0, last = 0, kinds = 0;
  for (const auto n : counts) {
    if (n == 0) continue;
    all += n;
    last = n;
    ++kinds;
  }
  const std::int64_t step = (all - last) / 255;
  if (kinds <= 1 || step == 0) return table_of([](int i) { return i; });
  std::int64_t n = step / 2;
  return table_of([&](int i) {
    const std::int64_t value = n / step;
    n += counts[static_cast<size_t>(i)];
    return static_cast<double>(std::min<std::int64_t>(value, 255));
  });
}

// Where Pillow's transform with AFFINE takes pixels from.
Affine map_of(Operation operation, double amount, const Image& image) {
  switch (operation) {
    case Operation::ShearX:
      return {.xy = amount};
    case Operation::ShearY:
      return {.yx = amount};
    case Operation::TranslateX:
      return {.x0 = amount};
    case Operation::TranslateY:
      return {.y0 = amount};
    default: {  // around the centre
      const double angle = -std::fmod(amount, 360) * std::numbers::pi / 180;
      const double c = std::cos(angle), s = std::sin(angle);
      const double x = image.width / 2.0, y = image.height / 2.0;
      return {c, s, x - c * x - s * y, -s, c, y + s * x - c * y};
    }
  }
}

}  // namespace

std::string_view name_of(Operation operation) {
  constexpr std::string_view names[] = {"AutoContrast", "Equalize",   "Invert",      "Rotate",
                                        "Posterize",    "Solarize",   "SolarizeAdd", "Color",
                                        "Contrast",     "Brightness", "Sharpness",   "ShearX",
                                        "ShearY",       "TranslateX", "TranslateY"};
  static_assert(std::size(names) == operation_count);
  return names[static_cast<size_t>(operation)];
}

bool has_direction(Operation operation) {
  switch (operation) {
    case Operation::AutoContrast:
    case Operation::Equalize:
    case Operation::Invert:
    case Operation::Posterize:
    case Operation::Solarize:
    case Operation::SolarizeAdd:
      return false;
    default:
      return true;
  }
}

double amount_at(Operation operation, double level, bool negative, int size) {
  const double share = level / 10, sign = negative ? -1 : 1;
  switch (operation) {
    case Operation::AutoContrast:
    case Operation::Equalize:
    case Operation::Invert:
      return 0;
    case Operation::Rotate:
      return sign * 30 * share;
    case Operation::Posterize:
      return 4 - std::trunc(4 * share);
    case Operation::Solarize:
      return 256 - std::min(256.0, std::trunc(256 * share));
    case Operation::SolarizeAdd:
      return std::min(128.0, std::trunc(110 * share));
    case Operation::Color:
    case Operation::Contrast:
    case Operation::Brightness:
    case Operation::Sharpness:
      return std::max(0.1, 1 + sign * 0.9 * share);
    case Operation::ShearX:
    case Operation::ShearY:
      return sign * 0.3 * share;
    case Operation::TranslateX:
    case Operation::TranslateY:
      return sign * 0.45 * share * size;
  }
  return 0;
}

void Operator::apply(Operation operation, double amount, Colour fill, Image& image) {
  const auto& kernels = pixel_kernels();
  std::uint8_t* pixels = image.pixels.data();
  const size_t bytes = image.pixels.size();
  const auto factor = static_cast<float>(amount);
  const auto everywhere = [&](const auto& value) {
    const Table table = table_of(value);
    look_up(image, table, table, table);
  };
  switch (operation) {
    case Operation::AutoContrast:
    case Operation::Equalize: {
      const auto counts = histograms(image);
      const auto table = operation == Operation::Equalize ? equalized : stretched;
      look_up(image, table(counts[0]), table(counts[1]), table(counts[2]));
      break;
    }
    case Operation::Invert:
      for (size_t i = 0; i < bytes; ++i) pixels[i] = static_cast<std::uint8_t>(255 - pixels[i]);
      break;
    case Operation::Posterize: {
      const int mask = 256 - (1 << (8 - static_cast<int>(amount)));
      for (size_t i = 0; i < bytes; ++i) pixels[i] = static_cast<std::uint8_t>(pixels[i] & mask);
      break;
    }
    case Operation::Solarize:
      everywhere([&](int i) { return i < amount ? i : 255 - i; });
      break;
    case Operation::SolarizeAdd:
      everywhere([&](int i) { return i < 128 ? std::min(255.0, i + amount) : i; });
      break;
    case Operation::Color:
      other_.reshape(image.width, image.height);
      kernels.grey(pixels, other_.pixels.data(), bytes / 4);
      kernels.blend(other_.pixels.data(), pixels, factor, pixels, bytes);
      break;
    case Operation::Contrast: {
      const double mean = static_cast<double>(kernels.grey_sum(pixels, bytes / 4)) /
                          (static_cast<double>(bytes) / 4);
      kernels.blend_value(static_cast<int>(mean + 0.5), pixels, factor, pixels, bytes);
      break;
    }
    case Operation::Brightness:
      kernels.blend_value(0, pixels, factor, pixels, bytes);
      break;
    case Operation::Sharpness:
      sharpen(factor, image);
      break;
    case Operation::Rotate:
    case Operation::ShearX:
    case Operation::ShearY:
    case Operation::TranslateX:
    case Operation::TranslateY:
      move(operation, amount, fill, image);
      break;
  }
}

void Operator::sharpen(float amount, Image& image) {
  const auto& kernels = pixel_kernels();
  other_.reshape(image.width, image.height);
  const int last = image.height - 1;
  for (const int y : {0, last}) std::memcpy(other_.row(y), image.row(y), image.stride());
  for (int y = 1; y < last; ++y) {
    kernels.smooth(image.row(y - 1), image.row(y), image.row(y + 1), other_.row(y), image.stride());
  }
  kernels.blend(other_.pixels.data(), image.pixels.data(), amount, image.pixels.data(),
                image.pixels.size());
}

void Operator::move(Operation operation, double amount, Colour fill, Image& image) {
  const Affine map = map_of(operation, amount, image);
  const std::uint8_t colour[4] = {fill.red, fill.green, fill.blue, 255};
  std::uint32_t word;
  std::memcpy(&word, colour, sizeof word);
  other_.reshape(image.width, image.height);
  for (int y = 0; y < image.height; ++y) {
    pixel_kernels().affine_row(image.pixels.data(), image.width, image.height, map, y, word,
                               other_.row(y));
  }
  std::swap(image, other_);
}

void mirror(Image& image) {
  for (int y = 0; y < image.height; ++y) {
    std::uint8_t* row = image.row(y);
    for (size_t left = 0, right = image.stride() - 4; left < right; left += 4, right -= 4) {
      std::swap_ranges(row + left, row + left + 4, row + right);
    }
  }
}

}  // namespace normball::trainer::images
