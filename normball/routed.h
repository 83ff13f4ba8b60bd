// From routed tensors to what an Optimizer takes: a Layer for each block when it is made, and a
// Parameter for each at every step, in the same order.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "normball/optimizer.h"
#include "normball/routing.h"

namespace normball {

// Every block of every route, in order.
std::vector<Layer> layers_of(std::span<const Route> routes);
void append_layers(const Route& route, std::vector<Layer>& layers);
// Throws what an Optimizer with a constrained method would, as soon as the route is known.
void require_lmo(std::string_view where, const Route& route);

// The memory of a routed parameter: contiguous tensors of its dimensions.
template <class T>
struct RoutedTensor {
  T* weight = nullptr;
  T* gradient = nullptr;     // null without one, and where the tensor is empty
  bool has_gradient = true;  // without one it takes no part in the step
  T* momentum = nullptr;     // with Execution::external_momentum
  double lr_factor = 1;
  const T* start = nullptr;  // x_0, for a rule that needs it
};

// The block of a tensor that begins at data.
template <class T>
MatrixView<T> view_of(const Block& block, T* data) {
  return {data == nullptr ? data : data + block.offset, block.shape.rows, block.shape.cols,
          block.stride};
}

// A parameter for each of the route's blocks. Allocates nothing where `parameters` has room.
template <class T>
void append_parameters(const Route& route, const RoutedTensor<T>& tensor,
                       std::vector<Parameter<T>>& parameters) {
  for (const auto& block : route.blocks) {
    parameters.push_back({.weight = view_of(block, tensor.weight),
                          .gradient = view_of(block, tensor.gradient),
                          .has_gradient = tensor.has_gradient,
                          .momentum = view_of(block, tensor.momentum),
                          .lr_factor = tensor.lr_factor,
                          .start = view_of(block, tensor.start)});
  }
}

}  // namespace normball
