// How a step is divided: which rows of which layer one thread does at a time, and in which order.
// Layers whose direction is a function of d are cut into parts of a fixed size, whose sums are
// added in order: the cut does not depend on the threads, and so neither do the results. Internal.
#pragma once

#include <span>
#include <vector>

#include "normball/internal/geometry.h"

namespace normball::detail {

struct LayerWork {
  Shape shape;
  const GeometryRules& rules;
  bool elsewhere = false;  // another process finds its direction; here it is only added
};

// Some rows of a layer.
struct WorkItem {
  size_t layer;
  size_t part;  // among the layer's own
  Index begin, end;
  bool team = false;  // all threads work on it, one such item after the other
};

struct Work {
  std::vector<WorkItem> items;  // longest first: the threads then finish close to each other
  int threads = 1;              // at most as many as were offered; a tiny model runs on one
};

// How a layer whose direction is a function of d is cut.
Index rows_in_a_part(const Shape& shape);
Index part_count(const Shape& shape);

Work divide_work(std::span<const LayerWork> layers, int threads);

}  // namespace normball::detail
