// What is asked of the parameters of a step, before anything is changed. Internal.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "normball/internal/step/layer_step.h"
#include "normball/method.h"

namespace normball::detail {

// Layers without a name get one; two of one name are an error.
void name_layers(std::vector<Layer>& layers);

// Throws for a layer that is not valid, or whose direction does not suit the method or the memory
// mode.
void require_suitable(const Layer& layer, bool constrained, bool light);

// One weight of the right shape for each layer.
template <class T>
void require_weights(std::string_view where, const std::vector<LayerStep<T>>& layers,
                     std::span<const Parameter<T>> parameters);

// ... and for each that takes part a gradient, a momentum where it is the caller's, and an lr.
template <class T>
void require_parameters(std::string_view where, std::vector<LayerStep<T>>& layers,
                        std::span<const Parameter<T>> parameters, const Method& method, double lr);

// ... and for each the x_0 that the caller keeps.
template <class T>
void require_starts(std::string_view where, std::vector<LayerStep<T>>& layers,
                    std::span<const Parameter<T>> parameters);

// What is written to, or read while others are written to.
template <class T>
struct Target {
  MatrixView<T> view;
  size_t layer;
  const char* what;
  bool written = true;
};

// Threads write to all of these at once, a momentum must outlast the weight's update, and a
// gradient may be read when other weights have moved. Gradients that are only read may share
// memory. `targets` is scratch memory.
template <class T>
void require_apart(std::string_view where, std::vector<LayerStep<T>>& layers,
                   std::span<const Parameter<T>> parameters, std::vector<Target<T>>& targets);

template <class T>
void require_targets_apart(std::string_view where, const std::vector<LayerStep<T>>& layers,
                           std::vector<Target<T>>& targets);

// A step that stays in the range of its type, and in the ball where constrained.
template <class T>
void require_step(std::string_view where, const std::vector<LayerStep<T>>& layers, double step,
                  bool constrained);

}  // namespace normball::detail
