#include "normball/internal/step/step_checks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>

#include "normball/base/error.h"

namespace normball::detail {
namespace {

template <class T, class Entry>
void require_shape(std::string_view where, const LayerStep<T>& layer, std::string_view what,
                   MatrixView<Entry> view, const Shape& shape) {
  require_view(where, view, "the ", what, " of '", layer.name(), "'");
  if (view.rows != shape.rows || view.cols != shape.cols) {
    throw_invalid(where, "the ", what, " of '", layer.name(), "' is ", view.rows, "x", view.cols,
                  shape.rows == layer.shape().rows ? "; the layer is " : "; its rows here are ",
                  shape.rows, "x", shape.cols);
  }
  if (reinterpret_cast<std::uintptr_t>(view.data) % alignof(Entry) != 0) {
    throw_invalid(where, "the ", what, " of '", layer.name(), "' does not start at a multiple of ",
                  alignof(Entry), " bytes");
  }
}

template <class T, class Entry>
void require_shape(std::string_view where, const LayerStep<T>& layer, std::string_view what,
                   MatrixView<Entry> view) {
  require_shape(where, layer, what, view, layer.shape());
}

// Rounding aside, a step of more than 1 leaves the ball.
bool allowed(double step, bool constrained) {
  return std::isfinite(step) && step >= 0 && !(constrained && step > 1 + 1e-12);
}

// A gradient that is its layer's own weight, as that of ‖x‖²/2: each element is read before it is
// written.
template <class T>
bool is_own_weight(const Target<T>& one, const Target<T>& other) {
  const std::string_view weight = "weight";
  return one.layer == other.layer && (one.what == weight || other.what == weight) &&
         one.view.data == other.view.data && one.view.stride == other.view.stride;
}

const char* allowed_text(bool constrained) { return constrained ? " and at most 1" : ""; }

}  // namespace

void name_layers(std::vector<Layer>& layers) {
  std::set<std::string> names;
  for (size_t l = 0; l < layers.size(); ++l) {
    if (layers[l].name.empty()) layers[l].name = "layer" + std::to_string(l);
    if (!names.insert(layers[l].name).second) {
      throw_invalid("Optimizer", "two layers are named '", layers[l].name, "'");
    }
  }
}

void require_suitable(const Layer& layer, bool constrained, bool light) {
  normball::validate(layer);
  const ResolvedNorm norm = resolve(layer.norm, layer.shape);
  if (constrained) require_lmo("Optimizer", layer.name, norm);
  if (light && norm.geometry == Geometry::Operator && depends_on_scale(norm.solver)) {
    throw_invalid("Optimizer", "the norm of '", layer.name, "' clips singular values at a fixed ",
                  "tau (", norm.solver, "), and light keeps the average at another scale: use ",
                  "clip(share=...), or do without light");
  }
}

template <class T>
void require_weights(std::string_view where, const std::vector<LayerStep<T>>& layers,
                     std::span<const Parameter<T>> parameters) {
  if (parameters.size() != layers.size()) {
    throw_invalid(where, "got ", parameters.size(), " parameters for ", layers.size(), " layers");
  }
  for (size_t l = 0; l < layers.size(); ++l) {
    require_shape(where, layers[l], "weight", parameters[l].weight);
  }
}

template <class T>
void require_parameters(std::string_view where, std::vector<LayerStep<T>>& layers,
                        std::span<const Parameter<T>> parameters, const Method& method, double lr) {
  require_weights(where, layers, parameters);
  for (size_t l = 0; l < layers.size(); ++l) {
    const auto& [weight, gradient, has_gradient, momentum, lr_factor, start] = parameters[l];
    if (!has_gradient) continue;
    require_shape(where, layers[l], "gradient", gradient);
    if (layers[l].buffers().writes_momentum()) {
      require_shape(where, layers[l], "momentum", momentum, layers[l].held_shape());
    }
    if (momentum.data != nullptr && !layers[l].buffers().takes_momentum()) {
      throw_invalid(where, "'", layers[l].name(),
                    "' comes with a momentum, but the optimizer keeps ",
                    "its own: construct it with Execution::external_momentum, or leave it out");
    }
    require_lr(where, method, lr_factor * lr, layers[l].name());
  }
}

template <class T>
void require_starts(std::string_view where, std::vector<LayerStep<T>>& layers,
                    std::span<const Parameter<T>> parameters) {
  for (size_t l = 0; l < layers.size(); ++l) {
    if (parameters[l].start.data == nullptr && layers[l].shape().size() > 0) {
      throw_invalid(where,
                    "the rule measures the distance from the start: give Parameter::start of '",
                    layers[l].name(), "', a copy of its weight before the first step");
    }
    require_shape(where, layers[l], "start", parameters[l].start);
  }
}

template <class T>
void require_apart(std::string_view where, std::vector<LayerStep<T>>& layers,
                   std::span<const Parameter<T>> parameters, std::vector<Target<T>>& targets) {
  targets.clear();
  for (size_t l = 0; l < layers.size(); ++l) {
    const auto& parameter = parameters[l];
    if (!parameter.has_gradient || parameter.weight.empty()) continue;
    const auto& buffers = layers[l].buffers();
    targets.push_back({parameter.weight, l, "weight"});
    if (buffers.writes_momentum() && !parameter.momentum.empty()) {
      targets.push_back({parameter.momentum, l, "momentum"});
    }
    targets.push_back({parameter.gradient, l, "gradient", buffers.writes_gradient()});
  }
  require_targets_apart(where, layers, targets);
}

template <class T>
void require_targets_apart(std::string_view where, const std::vector<LayerStep<T>>& layers,
                           std::vector<Target<T>>& targets) {
  std::ranges::sort(targets, std::less{}, [](const auto& target) { return target.view.data; });
  for (auto one = targets.begin(); one != targets.end(); ++one) {
    const T* const end = one->view.row(one->view.rows - 1) + one->view.cols;
    for (auto other = std::next(one); other != targets.end() && std::less{}(other->view.data, end);
         ++other) {
      const bool both = one->written && other->written;
      if (!one->written && !other->written) continue;
      if (!both && is_own_weight(*one, *other)) continue;
      if (!overlap(one->view, other->view)) continue;
      throw_invalid(
          where, "the ", one->what, " of '", layers[one->layer].name(), "' and the ", other->what,
          " of '", layers[other->layer].name(), "' share memory, and ",
          both ? "both are written to" : "the step writes to one while it reads the other",
          ": give each its own");
    }
  }
}

template <class T>
void require_step(std::string_view where, const std::vector<LayerStep<T>>& layers, double step,
                  bool constrained) {
  for (const auto& layer : layers) {
    if (!layer.takes_part()) continue;
    const double own = layer.parameter().lr_factor * step;
    if (!allowed(own, constrained)) {
      throw_invalid(where, "gamma eta must be finite, not negative", allowed_text(constrained),
                    ", got ", own);
    }
    if (!(own * layer.unit() <= static_cast<double>(std::numeric_limits<T>::max()))) {
      throw_invalid(where, "the step of '", layer.name(), "' is ", own * layer.unit(),
                    " long, beyond the range of its type: lower the lr or the radius");
    }
  }
}

#define NORMBALL_INSTANTIATE(T)                                                           \
  template void require_weights(std::string_view, const std::vector<LayerStep<T>>&,       \
                                std::span<const Parameter<T>>);                           \
  template void require_parameters(std::string_view, std::vector<LayerStep<T>>&,          \
                                   std::span<const Parameter<T>>, const Method&, double); \
  template void require_starts(std::string_view, std::vector<LayerStep<T>>&,              \
                               std::span<const Parameter<T>>);                            \
  template void require_apart(std::string_view, std::vector<LayerStep<T>>&,               \
                              std::span<const Parameter<T>>, std::vector<Target<T>>&);    \
  template void require_targets_apart(std::string_view, const std::vector<LayerStep<T>>&, \
                                      std::vector<Target<T>>&);                           \
  template void require_step(std::string_view, const std::vector<LayerStep<T>>&, double, bool);
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball::detail
