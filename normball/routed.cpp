#include "normball/routed.h"

namespace normball {

void append_layers(const Route& route, std::vector<Layer>& layers) {
  for (const auto& block : route.blocks) {
    layers.push_back(
        {.name = block.name, .shape = block.shape, .norm = route.norm, .radius = route.radius});
  }
}

std::vector<Layer> layers_of(std::span<const Route> routes) {
  std::vector<Layer> layers;
  for (const auto& route : routes) append_layers(route, layers);
  return layers;
}

}  // namespace normball
