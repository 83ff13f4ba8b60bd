#include "normball/routed.h"

namespace normball {

void append_layers(const Route& route, std::vector<Layer>& layers) {
  for (const auto& block : route.blocks) {
    Layer& layer = layers.emplace_back();  // of a temporary GCC 12 warns, without cause
    layer.name = block.name;
    layer.shape = block.shape;
    layer.norm = route.norm;
    layer.radius = route.radius;
  }
}

void require_lmo(std::string_view where, const Route& route) {
  for (const auto& block : route.blocks) {
    require_lmo(where, block.name, resolve(route.norm, block.shape));
  }
}

std::vector<Layer> layers_of(std::span<const Route> routes) {
  std::vector<Layer> layers;
  for (const auto& route : routes) append_layers(route, layers);
  return layers;
}

}  // namespace normball
