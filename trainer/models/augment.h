// Mirroring and shifting images (B, C, H, W), as airbench does. What comes in from outside is the
// picture mirrored at its border pixels.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <span>

namespace normball::trainer {

// Every image moved down by `down` and right by `right` pixels.
torch::Tensor shifted(const torch::Tensor& images, std::int64_t down, std::int64_t right);

struct Augmentation {
  std::int64_t translate = 2;  // pixels, at most, in each direction; 0: none
  bool flip = true;  // an image is mirrored in every other epoch, half of them in the first
  std::uint64_t seed = 0;
};

// The images with these numbers in the data set, as they are shown in an epoch. A function of its
// arguments alone: there is no state to save.
torch::Tensor augment(const torch::Tensor& images, std::span<const std::int64_t> numbers,
                      std::int64_t epoch, const Augmentation& augmentation);

}  // namespace normball::trainer
