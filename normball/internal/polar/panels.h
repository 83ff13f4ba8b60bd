// The panels in which the solvers compute their products. Internal.
#pragma once

#include "normball/base/panels.h"

namespace normball::detail {

using Range = Panel;

// 1, 2, 4 or 8 panels of at least `width`.
inline Index panel_count(Index total, Index width) {
  Index count = 8;
  while (count > 1 && total < count * width) count /= 2;
  return count;
}

}  // namespace normball::detail
