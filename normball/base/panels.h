// How a product is cut for several threads: by its shape alone, never by the number of threads, so
// that results do not depend on it.
#pragma once

#include <algorithm>

#include "normball/matrix_view.h"

namespace normball {

struct Panel {
  Index begin, size;
  Index end() const { return begin + size; }
};

// The i-th of `count` panels of [0, total), cut at multiples of 16; the last ones may be empty.
inline Panel panel(Index total, Index count, Index i) {
  const Index width = ((total + count - 1) / count + 15) / 16 * 16;
  const Index begin = std::min(total, width * i);
  return {begin, std::min(total, begin + width) - begin};
}

// The threads that a product of an a x b and a b x c matrix is worth: waking others for a few tens
// of microseconds costs more than it saves.
inline int worth_threads(Index a, Index b, Index c, int threads) {
  const double flops = 2 * static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
  return flops < 4e6 ? 1 : threads;
}

}  // namespace normball
