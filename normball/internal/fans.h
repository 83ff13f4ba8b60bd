// How a layer maps fan-in to fan-out, which the scales of the norms depend on. Internal.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "normball/shape.h"

namespace normball::detail {

inline double root(Index n) { return std::sqrt(static_cast<double>(std::max<Index>(n, 1))); }

// After `transposed` has swapped them.
struct Fans {
  Index out;
  Index in;      // without the kernel
  Index kernel;  // k, or k*k

  Fans(const Shape& shape, bool transposed)
      : out(shape.rows), in(shape.fan_in()), kernel(shape.kernel) {
    if (transposed) std::swap(out, in);
  }
  Index columns() const { return in * kernel; }
};

}  // namespace normball::detail
