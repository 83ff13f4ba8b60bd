// How products are split into panels. The split depends on the shape alone, never on the number of
// threads, so that results do not depend on it either. Internal.
#pragma once

#include <algorithm>

#include "normball/matrix_view.h"

namespace normball::detail {

struct Range {
  Index begin, size;
  Index end() const { return begin + size; }
};

// The i-th of `count` panels of [0, total), cut at multiples of 16; the last ones may be empty.
inline Range panel(Index total, Index count, Index i) {
  const Index width = ((total + count - 1) / count + 15) / 16 * 16;
  const Index begin = std::min(total, width * i);
  return {begin, std::min(total, begin + width) - begin};
}

// 1, 2, 4 or 8 panels of at least `width`.
inline Index panel_count(Index total, Index width) {
  Index count = 8;
  while (count > 1 && total < count * width) count /= 2;
  return count;
}

}  // namespace normball::detail
