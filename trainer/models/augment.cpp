#include "trainer/models/augment.h"

#include <cstdlib>

#include "normball/error.h"
#include "normball/random.h"

namespace normball::trainer {
namespace {

// The place in [0, size) that mirrors to i, for −size < i < 2 size − 1.
std::int64_t reflect(std::int64_t i, std::int64_t size) {
  if (i < 0) return -i;
  return i < size ? i : 2 * (size - 1) - i;
}

void require_shift(std::int64_t shift, const torch::Tensor& images) {
  if (images.dim() != 4) detail::invalid("augment", "images are ", images.sizes(), ", not 4-d");
  if (std::abs(shift) >= images.size(2) || std::abs(shift) >= images.size(3)) {
    detail::invalid("augment", "a shift of ", shift, " pixels is too large for images of ",
                    images.size(2), "x", images.size(3));
  }
}

// to(row, column) ← from(row − down, column − right), its columns mirrored afterwards if asked.
void draw(const float* from, float* to, torch::IntArrayRef sizes, std::int64_t down,
          std::int64_t right, bool mirrored) {
  const std::int64_t planes = sizes[1], height = sizes[2], width = sizes[3];
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    for (std::int64_t row = 0; row < height; ++row, to += width) {
      const float* source = from + (plane * height + reflect(row - down, height)) * width;
      for (std::int64_t column = 0; column < width; ++column) {
        const std::int64_t place = mirrored ? width - 1 - column : column;
        to[column] = source[reflect(place - right, width)];
      }
    }
  }
}

}  // namespace

torch::Tensor shifted(const torch::Tensor& images, std::int64_t down, std::int64_t right) {
  require_shift(down, images);
  require_shift(right, images);
  const std::int64_t height = images.size(2), width = images.size(3);
  const std::int64_t top = std::abs(down), left = std::abs(right);
  return torch::reflection_pad2d(images, {left, left, top, top})
      .slice(2, top - down, top - down + height)
      .slice(3, left - right, left - right + width);
}

torch::Tensor augment(const torch::Tensor& images, std::span<const std::int64_t> numbers,
                      std::int64_t epoch, const Augmentation& augmentation) {
  require_shift(augmentation.translate, images);
  if (augmentation.translate < 0) {
    detail::invalid("augment", "translate must be 0 or more, got ", augmentation.translate);
  }
  if (static_cast<std::int64_t>(numbers.size()) != images.size(0)) {
    detail::invalid("augment", numbers.size(), " numbers for ", images.size(0), " images");
  }
  const auto from = images.to(torch::kCPU, torch::kFloat32).contiguous();
  const auto to = torch::empty_like(from);
  const std::int64_t step = from.stride(0);
  const auto range = static_cast<std::uint64_t>(2 * augmentation.translate + 1);
  for (std::int64_t i = 0; i < from.size(0); ++i) {
    // One generator for the image, one for the image in this epoch.
    const auto number = static_cast<std::uint64_t>(numbers[static_cast<size_t>(i)]);
    Random of_image(Random(augmentation.seed ^ Random(number).next()).next());
    const bool odd = (static_cast<std::uint64_t>(epoch) + of_image.below(2)) % 2 == 1;
    Random of_epoch(of_image.next() ^ Random(static_cast<std::uint64_t>(epoch)).next());
    const auto pixels = [&] {
      return static_cast<std::int64_t>(of_epoch.below(range)) - augmentation.translate;
    };
    const std::int64_t down = pixels(), right = pixels();
    draw(from.data_ptr<float>() + i * step, to.data_ptr<float>() + i * step, from.sizes(), down,
         right, augmentation.flip && odd);
  }
  return to;
}

}  // namespace normball::trainer
