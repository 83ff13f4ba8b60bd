// Mixup and CutMix of a batch, as in timm: each image with the one at the same place from the end,
// by one weight for the whole batch. Targets become shares of the classes.
#pragma once

#include <cstdint>

#include "normball/random.h"
#include "trainer/images/image.h"

namespace normball::trainer::data {

struct MixOptions {
  double mixup = 0, cutmix = 0;  // the parameter of Beta(a, a); 0: not this one
  bool any() const { return mixup > 0 || cutmix > 0; }
};

struct Mix {
  double weight = 1;     // of the image itself in its targets
  bool cut = false;      // CutMix: the box comes from the other; otherwise both are averaged
  images::Region box{};  // of CutMix, cut at the edges
};

// Where both are on, a fair coin chooses.
Mix random_mix(const MixOptions& options, int width, int height, Random& random);

// Both images of a pair: 3 planes each.
void mix_images(const Mix& mix, int width, int height, float* a, float* b);

// Beta(a, a), for any a > 0.
double random_beta(double a, Random& random);

}  // namespace normball::trainer::data
