#include "normball/internal/step/work.h"

#include <algorithm>
#include <functional>

namespace normball::detail {
namespace {

// Elements of a part: half a megabyte of floats stays in the second-level cache.
constexpr Index part_size = 1 << 17;

// In the rough nanoseconds of GeometryRules::cost().
constexpr double worth_waking_threads = 50e3;
constexpr double worth_a_team = 5e6;  // of a single matrix

}  // namespace

Index rows_in_a_part(const Shape& shape) {
  return std::max<Index>(1, part_size / std::max<Index>(1, shape.cols));
}

Index part_count(const Shape& shape) {
  if (shape.size() == 0) return 0;
  const Index rows = rows_in_a_part(shape);
  return (shape.rows + rows - 1) / rows;
}

Work divide_work(std::span<const LayerWork> layers, int threads) {
  const auto cost = [](const LayerWork& layer, Index rows) {
    return layer.elsewhere ? elementwise_cost(rows, layer.shape.cols)
                           : layer.rules.cost(rows, layer.shape.cols);
  };
  Work work;
  double total = 0;
  for (size_t l = 0; l < layers.size(); ++l) {
    const auto& [shape, rules, elsewhere] = layers[l];
    if (shape.size() == 0) continue;  // however many empty rows it has
    const Index rows = rules.stored ? shape.rows : rows_in_a_part(shape);
    total += cost(layers[l], shape.rows);
    for (Index begin = 0; begin < shape.rows; begin += rows) {
      work.items.push_back({.layer = l,
                            .part = static_cast<size_t>(begin / rows),
                            .begin = begin,
                            .end = std::min(begin + rows, shape.rows)});
    }
  }
  const auto cost_of = [&](const WorkItem& item) {
    return cost(layers[item.layer], item.end - item.begin);
  };
  std::ranges::stable_sort(work.items, std::greater{}, cost_of);
  work.threads = total < worth_waking_threads ? 1 : threads;
  // A large matrix with more than a thread's share of the work would keep the others waiting.
  for (auto& item : work.items) {
    item.team = layers[item.layer].rules.uses_threads && !layers[item.layer].elsewhere &&
                cost_of(item) > worth_a_team && cost_of(item) * work.threads > total;
  }
  return work;
}

}  // namespace normball::detail
