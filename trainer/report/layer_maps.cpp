#include "trainer/report/layer_maps.h"

#include <algorithm>
#include <cmath>

namespace normball::trainer::report {
namespace {

size_t row_of(LayerMap& map, const std::string& layer) {
  const auto found = std::ranges::find(map.layers, layer);
  if (found == map.layers.end()) {
    map.layers.push_back(layer);
    map.values.emplace_back(map.steps.size(), NAN);
    return map.layers.size() - 1;
  }
  return static_cast<size_t>(found - map.layers.begin());
}

void thin(LayerMap& map, size_t count) {
  if (map.steps.size() <= count) return;
  const auto pick = [&](auto& from) {
    std::remove_reference_t<decltype(from)> few;
    for (size_t i = 0; i < count; ++i) few.push_back(from[i * from.size() / count]);
    from = std::move(few);
  };
  for (auto& row : map.values) pick(row);
  pick(map.steps);
}

}  // namespace

std::map<std::string, LayerMap> layer_maps(std::span<const run::MetricsLine> lines, size_t steps) {
  std::map<std::string, LayerMap> maps;
  for (const auto& line : lines) {
    for (const auto& [name, value] : line.values) {
      const size_t slash = name.find('/');
      if (slash == std::string::npos) continue;
      LayerMap& map = maps[name.substr(0, slash)];
      if (map.steps.empty() || map.steps.back() != line.step) {
        map.steps.push_back(line.step);
        for (auto& row : map.values) row.push_back(NAN);
      }
      map.values[row_of(map, name.substr(slash + 1))].back() = line.number(name).value_or(NAN);
    }
  }
  for (auto& [name, map] : maps) thin(map, steps);
  return maps;
}

}  // namespace normball::trainer::report
