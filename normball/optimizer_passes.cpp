// The passes of a step over the layers: directions and pairings, then the weights.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <typeinfo>

#include "normball/error.h"
#include "normball/kernels.h"
#include "normball/momentum.h"
#include "normball/optimizer.h"
#include "normball/parallel.h"

namespace normball {
namespace {

// Runs body, which finds something of the layer; a standard error gets the layer's name in front.
// One of the user's own type, as Python's are, stays what it is.
template <class Body>
void naming(const Layer& layer, const Body& body) {
  const auto named = [&](const std::exception& error) {
    return detail::message("Optimizer", "layer '", layer.name, "': ", error.what());
  };
  try {
    body();
  } catch (const std::exception& error) {
    if (typeid(error) == typeid(std::invalid_argument)) throw std::invalid_argument(named(error));
    if (typeid(error) == typeid(std::domain_error)) throw std::domain_error(named(error));
    if (typeid(error) == typeid(std::out_of_range)) throw std::out_of_range(named(error));
    if (typeid(error) == typeid(std::logic_error)) throw std::logic_error(named(error));
    if (typeid(error) == typeid(std::runtime_error)) throw std::runtime_error(named(error));
    throw;
  }
}

}  // namespace

// What may fail comes first and only reads. Averages take their gradients in when nothing but the
// arithmetic of sums is left: see docs/design.md.
template <class T>
void Optimizer<T>::find_directions() {
  for_each_piece([&](Piece& piece, Workspace&) { piece.finite = inputs_finite(piece); });
  if (execution_.report_weight_norms && all_pieces_finite()) {
    measure_weights(parameters_);
    for (size_t l = 0; l < slots_.size(); ++l) report_.layers[l].weight_norm = norms_[l];
  }
  for (const Stage stage : {Stage::Stored, Stage::Overwriting, Stage::Elementwise}) {
    if (all_pieces_finite()) find_stage(stage);
  }
}

template <class T>
typename Optimizer<T>::Stage Optimizer<T>::stage(size_t layer) const {
  if (!needs_buffer(slots_[layer].norm.geometry)) return Stage::Elementwise;
  return overwrites(layer) ? Stage::Overwriting : Stage::Stored;
}

template <class T>
void Optimizer<T>::find_stage(Stage now) {
  const auto due = [&](const Piece& piece) {
    return stage(piece.layer) == now && parameters_[piece.layer].has_gradient;
  };
  const auto first = std::ranges::find_if(pieces_, due);
  if (first == pieces_.end()) return;
  if (takes_early(first->layer)) {
    even_out_workspaces();  // the last thing that can fail
    settled_ = false;
  }
  for (auto& piece : pieces_) {
    if (piece.team && due(piece)) find_piece(piece, workspaces_[0], execution_.threads);
  }
  for_each_piece([&](Piece& piece, Workspace& workspace) {
    if (!piece.team && due(piece)) find_piece(piece, workspace, 1);
  });
}

template <class T>
bool Optimizer<T>::inputs_finite(const Piece& piece) {
  const auto finite = [&](MatrixView<T> view) {
    return all_finite(view.row_range(piece.begin, piece.end));
  };
  const auto& parameter = parameters_[piece.layer];
  if (!finite(parameter.gradient)) return false;
  if (!takes_early(piece.layer) && !execution_.overwrite_gradients) {
    return true;  // find_piece() tells the rest in time
  }
  if (method_.constrained && !finite(parameter.weight)) return false;
  return !(execution_.external_momentum && overwrites(piece.layer)) || finite(parameter.momentum);
}

template <class T>
bool Optimizer<T>::all_pieces_finite() const {
  return std::ranges::all_of(pieces_, &Piece::finite);
}

template <class T>
void Optimizer<T>::find_piece(Piece& piece, Workspace& workspace, int threads) {
  const size_t l = piece.layer;
  Slot& slot = slots_[l];
  if (takes_early(l)) take_gradient(piece);
  const Workspace::Frame frame(workspace);
  const auto d = next_average(l, piece.begin, piece.end, workspace);
  if (needs_buffer(slot.norm.geometry)) piece.finite = all_finite(d);
  if (!piece.finite) return;  // or a solver would get it; sums may have it
  const auto u = direction(l, &piece);
  std::ranges::copy(slot.polar_state, slot.next_polar_state.begin());
  naming(layers_[l], [&] {
    piece.dual =
        find_direction<T>(slot.norm, d, u, workspace, slot.next_polar_state.data(), threads);
  });
  if (method_.constrained) {
    piece.weight_pairing = dot<T>(d, parameters_[l].weight.row_range(piece.begin, piece.end));
  }
  piece.finite = std::isfinite(piece.dual + piece.weight_pairing);
  if (execution_.report_polar_errors && slot.norm.geometry == Geometry::Operator) {
    report_.layers[l].polar_error = polar_error<T>(d, u.u, workspace);
  }
}

template <class T>
void Optimizer<T>::take_gradient(Piece& piece) {
  if (execution_.light || piece.taken) return;
  const auto d = average(piece.layer).row_range(piece.begin, piece.end);
  const auto g = parameters_[piece.layer].gradient.row_range(piece.begin, piece.end);
  next_momentum<T>(d, g, alpha_, d);
  piece.taken = true;
}

// Some averages had to take their gradients in before the step was certain: now the others do.
template <class T>
void Optimizer<T>::settle() {
  if (settled_) return;
  for (auto& piece : pieces_) {
    if (parameters_[piece.layer].has_gradient) take_gradient(piece);
  }
  settled_ = true;
}

// Adds up the pieces, then the layers: duals, shares and s.
template <class T>
void Optimizer<T>::combine_layers() {
  for (auto& slot : slots_) {
    slot.dual = slot.weight_pairing = 0;
    if (detail::lengths_are_partial(slot.norm.geometry)) std::ranges::fill(slot.lengths, 0.0);
  }
  for (const auto& piece : pieces_) {
    if (!parameters_[piece.layer].has_gradient) continue;
    Slot& slot = slots_[piece.layer];
    slot.dual += piece.dual;
    slot.weight_pairing += piece.weight_pairing;
    for (size_t j = 0; j < piece.lengths.size(); ++j) {
      slot.lengths[j] = combine_l2(slot.lengths[j], piece.lengths[j]);
    }
  }
  // In light form the buffer holds d / α: the direction is the same, the numbers are not.
  const double in_buffer = execution_.light ? alpha_ : 1;
  double weight_pairing = 0;
  for (size_t l = 0; l < slots_.size(); ++l) {
    Slot& slot = slots_[l];
    if (detail::lengths_are_partial(slot.norm.geometry)) {
      slot.dual = std::accumulate(slot.lengths.begin(), slot.lengths.end(), 0.0);
    }
    slot.dual *= in_buffer * slot.norm.scale * slot.radius;
    slot.weight_pairing *= in_buffer;
    duals_[l] = slot.dual;
    weight_pairing += slot.weight_pairing;
  }
  report_.pairing = weight_pairing + combine_duals(method_.combination, duals_, shares_);
  report_.wolfe_gap = method_.constrained ? report_.pairing : 0;
  for (size_t l = 0; l < slots_.size(); ++l) {
    slots_[l].share = shares_[l];
    report_.layers[l].dual_norm = slots_[l].dual;
    report_.layers[l].pairing = slots_[l].weight_pairing + shares_[l] * slots_[l].dual;
  }
}

// norms_[l] <- ‖W_l‖_l / r_l
template <class T>
void Optimizer<T>::measure_weights(std::span<const Parameter<T>> parameters) {
  parallel_for(static_cast<Index>(slots_.size()), execution_.threads, [&](Index i, int thread) {
    const auto l = static_cast<size_t>(i);
    naming(layers_[l], [&] {
      norms_[l] = detail::norm<T>(slots_[l].norm, parameters[l].weight,
                                  workspaces_[static_cast<size_t>(thread)]) /
                  slots_[l].radius;
    });
  });
}

// ‖v‖ = the combination of ‖v_l‖_l / r_l, with v_l formed in scratch memory.
template <class T>
void Optimizer<T>::measure_direction() {
  parallel_for(static_cast<Index>(slots_.size()), execution_.threads, [&](Index i, int thread) {
    const auto l = static_cast<size_t>(i);
    norms_[l] = 0;
    if (!parameters_[l].has_gradient || layers_[l].shape.size() == 0) return;
    Workspace& workspace = workspaces_[static_cast<size_t>(thread)];
    const Workspace::Frame frame(workspace);
    const auto weight = parameters_[l].weight;
    const auto v = workspace.matrix<T>(weight.rows, weight.cols);
    if (method_.constrained) copy<T>(weight, v);
    const bool stored = needs_buffer(slots_[l].norm.geometry);
    const auto d = stored ? average(l) : next_average(l, 0, weight.rows, workspace);
    add_direction<T>(slots_[l].norm.geometry, d, direction(l, nullptr), method_.constrained ? 1 : 0,
                     unit(l), v, workspace);
    naming(layers_[l],
           [&] { norms_[l] = detail::norm<T>(slots_[l].norm, v, workspace) / slots_[l].radius; });
  });
  report_.direction_norm = combine_norms(method_.combination, norms_);
}

template <class T>
void Optimizer<T>::move_weights(double step) {
  for_each_piece([&](Piece& piece, Workspace& workspace) {
    update_piece(piece, step * parameters_[piece.layer].lr_factor, workspace);
  });
  settled_ = true;
}

// W ← W − γη v, which is (1 − γη) W − γη r u where constrained; u is −lmo(d).
template <class T>
void Optimizer<T>::update_piece(Piece& piece, double step, Workspace& workspace) {
  const size_t l = piece.layer;
  Slot& slot = slots_[l];
  const auto d = average(l).row_range(piece.begin, piece.end);
  auto u = direction(l, nullptr);
  if (slot.norm.geometry == Geometry::RowL2) u.lengths += piece.begin;
  take_gradient(piece);
  std::ranges::copy(slot.next_polar_state, slot.polar_state.begin());
  if (step != 0) {
    add_direction<T>(slot.norm.geometry, d, u, method_.constrained ? 1 - step : 1, -step * unit(l),
                     parameters_[l].weight.row_range(piece.begin, piece.end), workspace);
  }
  if (execution_.light) {
    const double carry = light_carry(alpha_, next_alpha_);
    for_each_run(d, [&](Index at, Index n) { kernels<T>().scale(d.data + at, carry, n); });
  }
}

template <class T>
MatrixView<T> Optimizer<T>::average(size_t layer) {
  if (execution_.light) return parameters_[layer].gradient;
  if (execution_.external_momentum) return parameters_[layer].momentum;
  const Shape& shape = layers_[layer].shape;
  return {slots_[layer].momentum.data(), shape.rows, shape.cols};
}

// The average as the step will leave it: in scratch memory, unless it is in place already.
template <class T>
ConstMatrixView<T> Optimizer<T>::next_average(size_t layer, Index begin, Index end,
                                              Workspace& workspace) {
  const auto d = average(layer).row_range(begin, end);
  if (execution_.light || takes_early(layer)) return d;
  const auto next = workspace.matrix<T>(d.rows, d.cols);
  next_momentum<T>(d, parameters_[layer].gradient.row_range(begin, end), alpha_, next);
  return next;
}

// With a piece: where its own part goes, before combine_layers() puts the parts together.
template <class T>
Direction<T> Optimizer<T>::direction(size_t layer, Piece* piece) {
  Slot& slot = slots_[layer];
  const Shape& shape = layers_[layer].shape;
  Direction<T> result{.lengths = slot.lengths.data(), .u = {}};
  if (needs_buffer(slot.norm.geometry)) {
    result.u = overwrites(layer) ? parameters_[layer].gradient
                                 : MatrixView<T>(slot.direction.data(), shape.rows, shape.cols);
  }
  if (piece != nullptr && !piece->lengths.empty()) result.lengths = piece->lengths.data();
  if (piece != nullptr && slot.norm.geometry == Geometry::RowL2) result.lengths += piece->begin;
  return result;
}

template <class T>
double Optimizer<T>::unit(size_t layer) const {
  const Slot& slot = slots_[layer];
  return slot.radius * slot.norm.scale * slot.share;
}

// Layers without a gradient are passed over.
template <class T>
template <class Body>
void Optimizer<T>::for_each_piece(const Body& body) {
  parallel_for(static_cast<Index>(pieces_.size()), execution_.threads, [&](Index i, int thread) {
    Piece& piece = pieces_[static_cast<size_t>(i)];
    if (parameters_[piece.layer].has_gradient) {
      body(piece, workspaces_[static_cast<size_t>(thread)]);
    }
  });
}

// Any thread may meet any layer next time: give each what the hungriest has needed so far.
template <class T>
void Optimizer<T>::even_out_workspaces() {
  size_t most = update_scratch_;
  for (const auto& workspace : workspaces_) most = std::max(most, workspace.high_water());
  for (auto& workspace : workspaces_) workspace.reserve(most);
}

#define NORMBALL_INSTANTIATE(T)                                               \
  template void Optimizer<T>::find_directions();                              \
  template bool Optimizer<T>::all_pieces_finite() const;                      \
  template void Optimizer<T>::combine_layers();                               \
  template void Optimizer<T>::measure_direction();                            \
  template void Optimizer<T>::measure_weights(std::span<const Parameter<T>>); \
  template void Optimizer<T>::settle();                                       \
  template void Optimizer<T>::move_weights(double);                           \
  template MatrixView<T> Optimizer<T>::average(size_t);                       \
  template double Optimizer<T>::unit(size_t) const;                           \
  template void Optimizer<T>::even_out_workspaces();
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball
