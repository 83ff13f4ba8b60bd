// Compiled once for each instruction set: variants.h says what that forbids here. Pixels are
// vectors of four; the compiler makes of them what the processor has. Bytes are in the order of a
// little-endian processor.
#include "normball/internal/kernels/variants.h"
#include "trainer/images/pixel_kernels.h"

namespace normball::trainer::images {
namespace {

using Byte = std::uint8_t;
using Ints4 = std::int32_t __attribute__((vector_size(16)));
using Floats4 = float __attribute__((vector_size(16)));
using Bytes16 = Byte __attribute__((vector_size(16)));

constexpr int weight_bits = 22;
constexpr std::int32_t half = 1 << (weight_bits - 1);

template <class Value>
void store(Byte* to, const Value& value) {
  __builtin_memcpy(to, &value, sizeof value);
}
Bytes16 load16(const Byte* from) {
  Bytes16 value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

// Bytes i, i + step, ... as integers. Written as a shuffle with zeros, which is one instruction
// where conversions between vectors of other lengths are many.
template <int i, int step>
Ints4 widened(Bytes16 bytes) {
  return reinterpret_cast<Ints4>(__builtin_shufflevector(bytes, Bytes16{}, i, 16, 16, 16, i + step,
                                                         16, 16, 16, i + 2 * step, 16, 16, 16,
                                                         i + 3 * step, 16, 16, 16));
}
Ints4 pixel(const Byte* from) {
  std::uint32_t word;
  __builtin_memcpy(&word, from, sizeof word);
  const Ints4 first{static_cast<std::int32_t>(word), 0, 0, 0};
  return widened<0, 1>(reinterpret_cast<Bytes16>(first));
}
void store_pixel(Byte* to, Ints4 values) {
  const auto bytes = reinterpret_cast<Bytes16>(values);
  const auto packed = reinterpret_cast<Ints4>(
      __builtin_shufflevector(bytes, bytes, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12));
  store(to, packed[0]);
}

Ints4 to_byte_range(Ints4 sum) {
  sum >>= weight_bits;
  sum = sum < 0 ? Ints4{} : sum;
  return sum > 255 ? Ints4{} + 255 : sum;
}

void across(const Byte* const rows[4], Byte* const out[4], const TapsView& taps) {
  for (int x = 0; x < taps.outputs; ++x) {
    const std::int32_t* weights =
        taps.weights + static_cast<size_t>(x) * static_cast<size_t>(taps.most);
    const size_t first = 4 * static_cast<size_t>(taps.first[x]);
    Ints4 s0 = Ints4{} + half, s1 = s0, s2 = s0, s3 = s0;
    for (int k = 0; k < taps.count[x]; ++k) {
      const size_t at = first + 4 * static_cast<size_t>(k);
      const Ints4 weight = Ints4{} + weights[k];
      s0 += pixel(rows[0] + at) * weight;
      s1 += pixel(rows[1] + at) * weight;
      s2 += pixel(rows[2] + at) * weight;
      s3 += pixel(rows[3] + at) * weight;
    }
    const size_t to = 4 * static_cast<size_t>(x);
    store_pixel(out[0] + to, to_byte_range(s0));
    store_pixel(out[1] + to, to_byte_range(s1));
    store_pixel(out[2] + to, to_byte_range(s2));
    store_pixel(out[3] + to, to_byte_range(s3));
  }
}

void down(const Byte* rows, size_t stride, int count, const std::int32_t* weights, Byte* out,
          size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    Ints4 s0 = Ints4{} + half, s1 = s0, s2 = s0, s3 = s0;
    for (int k = 0; k < count; ++k) {
      const Bytes16 bytes = load16(rows + static_cast<size_t>(k) * stride + i);
      const Ints4 weight = Ints4{} + weights[k];
      s0 += widened<0, 1>(bytes) * weight;
      s1 += widened<4, 1>(bytes) * weight;
      s2 += widened<8, 1>(bytes) * weight;
      s3 += widened<12, 1>(bytes) * weight;
    }
    store_pixel(out + i, to_byte_range(s0));
    store_pixel(out + i + 4, to_byte_range(s1));
    store_pixel(out + i + 8, to_byte_range(s2));
    store_pixel(out + i + 12, to_byte_range(s3));
  }
  for (; i < n; i += 4) {
    Ints4 sum = Ints4{} + half;
    for (int k = 0; k < count; ++k) {
      sum += pixel(rows + static_cast<size_t>(k) * stride + i) * (Ints4{} + weights[k]);
    }
    store_pixel(out + i, to_byte_range(sum));
  }
}

// Rounded towards 0 as Pillow does.
Byte cut(float value) {
  value = value < 0 ? 0 : value;
  value = value > 255 ? 255 : value;
  return static_cast<Byte>(static_cast<int>(value));
}

void blend(const Byte* a, const Byte* b, float amount, Byte* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const int from = a[i], to = b[i];
    out[i] = cut(static_cast<float>(from) + amount * static_cast<float>(to - from));
  }
}

void blend_value(int a, const Byte* b, float amount, Byte* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const int to = b[i];
    out[i] = cut(static_cast<float>(a) + amount * static_cast<float>(to - a));
  }
}

// ITU-R 601-2 in units of 2^-16.
std::uint32_t luminance(const Byte* p) {
  return (p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16;
}

void grey(const Byte* pixels, Byte* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const std::uint32_t value = luminance(pixels + 4 * i) * 0x010101u;
    store(out + 4 * i, value);
  }
}

std::uint64_t grey_sum(const Byte* pixels, size_t n) {
  std::uint64_t sum = 0;
  constexpr size_t block = 1 << 16;  // whose sum fits into 32 bits
  for (size_t begin = 0; begin < n; begin += block) {
    const size_t end = begin + block < n ? begin + block : n;
    std::uint32_t part = 0;
    for (size_t i = begin; i < end; ++i) part += luminance(pixels + 4 * i);
    sum += part;
  }
  return sum;
}

// (1 1 1; 1 5 1; 1 1 1) / 13, rounded; the first and the last pixel stay.
void smooth(const Byte* above, const Byte* at, const Byte* below, Byte* out, size_t n) {
  for (size_t i = 0; i < 4; ++i) {
    out[i] = at[i];
    out[n - 4 + i] = at[n - 4 + i];
  }
  for (size_t i = 4; i + 4 < n; ++i) {
    const auto sum =
        static_cast<std::uint16_t>(above[i - 4] + above[i] + above[i + 4] + at[i - 4] + 5 * at[i] +
                                   at[i + 4] + below[i - 4] + below[i] + below[i + 4]);
    out[i] = static_cast<Byte>(static_cast<std::uint16_t>(2 * sum + 13) / 26);
  }
}

// Keys' cubic with a = -1, in Pillow's order of operations.
Floats4 cubic(Floats4 v1, Floats4 v2, Floats4 v3, Floats4 v4, float d) {
  const Floats4 p2 = v3 - v1, p3 = 2 * (v1 - v2) + v3 - v4, p4 = v2 - v1 + v4 - v3;
  return v2 + d * (p2 + d * (p3 + d * p4));
}

int clamp(int value, int size) { return value < 0 ? 0 : value >= size ? size - 1 : value; }

Floats4 colours(const Byte* p) { return __builtin_convertvector(pixel(p), Floats4); }

// A row's pixels around a place, from the column before it on.
Floats4 cubic_in_row(const Byte* row, const size_t columns[4], float d) {
  if (d == 0) return colours(row + columns[1]);  // as the formula gives it
  return cubic(colours(row + columns[0]), colours(row + columns[1]), colours(row + columns[2]),
               colours(row + columns[3]), d);
}

void affine_row(const Byte* source, int width, int height, const Affine& map, int y,
                std::uint32_t fill, Byte* out) {
  const double across_y = y + 0.5;
  const size_t stride = 4 * static_cast<size_t>(width);
  for (int x = 0; x < width; ++x) {
    const double sx = map.xx * (x + 0.5) + map.xy * across_y + map.x0;
    const double sy = map.yx * (x + 0.5) + map.yy * across_y + map.y0;
    Byte* to = out + 4 * static_cast<size_t>(x);
    if (sx < 0 || sx >= width || sy < 0 || sy >= height) {
      store(to, fill);
      continue;
    }
    const int left = static_cast<int>(sx + 0.5) - 1, top = static_cast<int>(sy + 0.5) - 1;
    const auto dx = static_cast<float>(sx - 0.5 - left), dy = static_cast<float>(sy - 0.5 - top);
    size_t columns[4];
    for (int k = 0; k < 4; ++k) columns[k] = 4 * static_cast<size_t>(clamp(left - 1 + k, width));
    const auto in_row = [&](int k) {
      const auto row = static_cast<size_t>(clamp(top - 1 + k, height));
      return cubic_in_row(source + row * stride, columns, dx);
    };
    Floats4 value = dy == 0 ? in_row(1) : cubic(in_row(0), in_row(1), in_row(2), in_row(3), dy);
    value = value < 0 ? Floats4{} : value;
    value = value > 255 ? Floats4{} + 255 : value;
    store_pixel(to, __builtin_convertvector(value, Ints4));
  }
}

template <int c>
void to_plane(const Byte* pixels, float scale, float shift, float* plane, size_t n) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const Floats4 values = __builtin_convertvector(widened<c, 4>(load16(pixels + 4 * i)), Floats4);
    const Floats4 result = scale * values + shift;
    __builtin_memcpy(plane + i, &result, sizeof result);
  }
  for (; i < n; ++i) plane[i] = scale * static_cast<float>(int{pixels[4 * i + c]}) + shift;
}

void to_planes(const Byte* pixels, const float* scale, const float* shift, float* const planes[3],
               size_t n) {
  to_plane<0>(pixels, scale[0], shift[0], planes[0], n);
  to_plane<1>(pixels, scale[1], shift[1], planes[1], n);
  to_plane<2>(pixels, scale[2], shift[2], planes[2], n);
}

constexpr PixelKernels table = {across,   down,   blend,      blend_value, grey,
                                grey_sum, smooth, affine_row, to_planes};

}  // namespace

const PixelKernels& NORMBALL_VARIANT_NAME(pixel_kernels, bytes)() { return table; }

}  // namespace normball::trainer::images
