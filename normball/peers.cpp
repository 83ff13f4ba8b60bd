#include "normball/peers.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "normball/base/error.h"
#include "normball/internal/geometry.h"

namespace normball {
namespace {

const detail::GeometryRules& rules_of(const Layer& layer) {
  return detail::rules(resolve(layer.norm, layer.shape).geometry);
}

double cost_of(const Layer& layer) {
  return rules_of(layer).cost(layer.shape.rows, layer.shape.cols);
}

}  // namespace

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
    if (!rules_of(layers[l]).stored) continue;
    const size_t tensor = tensors.empty() ? l : tensors[l];
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
  std::erase_if(order, [&](size_t l) { return owners[l] == every_process; });
  std::ranges::stable_sort(order, std::greater{}, [&](size_t l) { return cost_of(layers[l]); });
  std::map<int, size_t> taken;
  std::vector<size_t> turn(layers.size());
  for (const size_t l : order) turn[l] = taken[owners[l]]++;
  std::ranges::stable_sort(order, std::less{},
                           [&](size_t l) { return std::pair(turn[l], owners[l]); });
  return order;
}

}  // namespace normball
