// The loops over pixels that take the time: no allocation, compiled for several instruction sets
// and chosen at run time. All results are the same on every processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace normball::trainer::images {

// Which input pixels make an output pixel of a resized row or column, and their weights in units
// of 2^-22, as in Pillow.
struct TapsView {
  const int* first;
  const int* count;
  const std::int32_t* weights;  // `most` for each output pixel
  int outputs, most;
};

// x' = xx x + xy y + x0, and so on: where in the source the centre of a pixel is taken from.
struct Affine {
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;
};

struct PixelKernels {
  // Four rows at once: rows of `out` pixels from rows of the input; they may be the same row.
  void (*across)(const std::uint8_t* const rows[4], std::uint8_t* const out[4],
                 const TapsView& taps);
  // One row of n bytes from `count` rows, `stride` bytes apart.
  void (*down)(const std::uint8_t* rows, size_t stride, int count, const std::int32_t* weights,
               std::uint8_t* out, size_t n);
  // out <- a + amount (b - a), cut to a byte.
  void (*blend)(const std::uint8_t* a, const std::uint8_t* b, float amount, std::uint8_t* out,
                size_t n);
  // The same with one byte for all of a.
  void (*blend_value)(int a, const std::uint8_t* b, float amount, std::uint8_t* out, size_t n);
  // Each pixel's luminance in its first three bytes.
  void (*grey)(const std::uint8_t* pixels, std::uint8_t* out, size_t n);
  // The sum of the luminance of n pixels.
  std::uint64_t (*grey_sum)(const std::uint8_t* pixels, size_t n);
  // A row of n bytes of the 3x3 smoothing, from the rows above, at and below it.
  void (*smooth)(const std::uint8_t* above, const std::uint8_t* at, const std::uint8_t* below,
                 std::uint8_t* out, size_t n);
  // Row y of a picture of the source's size, by bicubic interpolation; where the source is left,
  // `fill`.
  void (*affine_row)(const std::uint8_t* source, int width, int height, const Affine& map, int y,
                     std::uint32_t fill, std::uint8_t* out);
  // plane c <- scale[c] v + shift[c] of n pixels, for the three channels.
  void (*to_planes)(const std::uint8_t* pixels, const float* scale, const float* shift,
                    float* const planes[3], size_t n);
};

const PixelKernels& pixel_kernels();

const PixelKernels& pixel_kernels_generic_bytes();
const PixelKernels& pixel_kernels_avx2_bytes();
const PixelKernels& pixel_kernels_avx512_bytes();

}  // namespace normball::trainer::images
