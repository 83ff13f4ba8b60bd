#include "trainer/images/pixel_kernels.h"

#include "normball/internal/kernels/variants.h"

namespace normball::trainer::images {

const PixelKernels& pixel_kernels() {
  static const PixelKernels& table = NORMBALL_CHOOSE(pixel_kernels, bytes);
  return table;
}

}  // namespace normball::trainer::images
