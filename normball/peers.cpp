#include "normball/peers.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "normball/base/error.h"
#include "normball/internal/geometry.h"
#include "normball/internal/step/work.h"

namespace normball {
namespace {

const detail::GeometryRules& rules_of(const Layer& layer) {
  return detail::rules(resolve(layer.norm, layer.shape).geometry);
}

double cost_of(const Layer& layer) {
  return rules_of(layer).cost(layer.shape.rows, layer.shape.cols);
}

bool divisible(const Layer& layer) {
  return resolve(layer.norm, layer.shape).geometry == Geometry::MaxAbs &&
         detail::part_count(layer.shape) > 1;
}

}  // namespace

Rows rows_of(const Shape& shape, int process, int processes) {
  if (process < 0 || process >= processes) {
    throw_invalid("rows_of", "got the process ", process, " of ", processes);
  }
  const Index parts = detail::part_count(shape), rows = detail::rows_in_a_part(shape);
  const auto cut = [&](Index at) { return std::min(parts * at / processes * rows, shape.rows); };
  return {cut(process), cut(process + 1)};
}

std::vector<Index> gradient_parts(const Shape& shape, int owner, int processes) {
  if (owner == every_process) return {};
  std::vector<Index> parts(static_cast<size_t>(processes));
  for (int process = 0; process < processes; ++process) {
    const Index rows = owner == by_rows ? rows_of(shape, process, processes).count()
                                        : (owner == process ? shape.rows : 0);
    parts[static_cast<size_t>(process)] = rows * shape.cols;
  }
  return parts;
}

std::vector<int> share_layers(std::span<const Layer> layers, int processes,
                              std::span<const size_t> tensors) {
  constexpr auto where = "share_layers";
  if (processes < 1) throw_invalid(where, "there must be a process or more, got ", processes);
  if (!tensors.empty() && tensors.size() != layers.size()) {
    throw_invalid(where, "got ", tensors.size(), " tensors for ", layers.size(), " layers");
  }
  struct Group {
    size_t tensor;
    double cost = 0;
    std::vector<size_t> layers = {};
  };
  std::map<size_t, Group> by_tensor;
  std::vector<int> owners(layers.size(), every_process);
  for (size_t l = 0; l < layers.size(); ++l) {
    const size_t tensor = tensors.empty() ? l : tensors[l];
    const bool alone = tensors.empty() || std::ranges::count(tensors, tensor) == 1;
    if (alone && divisible(layers[l])) owners[l] = by_rows;
    if (!rules_of(layers[l]).stored) continue;
    Group& group = by_tensor.try_emplace(tensor, Group{.tensor = tensor}).first->second;
    group.cost += cost_of(layers[l]);
    group.layers.push_back(l);
  }
  std::vector<Group> groups;
  groups.reserve(by_tensor.size());
  for (auto& [tensor, group] : by_tensor) groups.push_back(std::move(group));
  std::ranges::stable_sort(groups, std::greater{}, &Group::cost);
  std::vector<double> load(static_cast<size_t>(processes));
  for (const auto& group : groups) {
    const auto least = std::ranges::min_element(load);
    *least += group.cost;
    for (const size_t l : group.layers) owners[l] = static_cast<int>(least - load.begin());
  }
  return owners;
}

std::vector<size_t> sending_order(std::span<const Layer> layers, std::span<const int> owners) {
  if (owners.size() != layers.size()) {
    throw_invalid("sending_order", "got ", owners.size(), " owners for ", layers.size(), " layers");
  }
  std::vector<size_t> order(layers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t l) { return owners[l] < 0; });
  std::ranges::stable_sort(order, std::greater{}, [&](size_t l) { return cost_of(layers[l]); });
  std::map<int, size_t> taken;
  std::vector<size_t> turn(layers.size());
  for (const size_t l : order) turn[l] = taken[owners[l]]++;
  std::ranges::stable_sort(order, std::less{},
                           [&](size_t l) { return std::pair(turn[l], owners[l]); });
  return order;
}

}  // namespace normball
