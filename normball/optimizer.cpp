#include "normball/optimizer.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "normball/error.h"
#include "normball/kernels.h"
#include "normball/momentum.h"
#include "normball/parallel.h"

namespace normball {
namespace {

// Elements of a piece: half a megabyte of floats stays in the second-level cache.
constexpr Index piece_size = 1 << 17;

// Whether every piece has only a part of each length.
bool lengths_are_partial(Geometry geometry) {
  return geometry == Geometry::Frobenius || geometry == Geometry::ColL2;
}

// Rough nanoseconds of a step on a piece, for their order and for whether threads are worth waking.
double cost(Geometry geometry, Index rows, Index cols) {
  const double size = static_cast<double>(rows) * static_cast<double>(cols);
  return geometry == Geometry::Operator
             ? size * (20 + 2 * static_cast<double>(std::min(rows, cols)))
             : size;
}
constexpr double worth_threads = 50e3;
constexpr double worth_team = 5e6;  // of a single matrix

void name_layers(std::vector<Layer>& layers) {
  std::set<std::string> names;
  for (size_t l = 0; l < layers.size(); ++l) {
    if (layers[l].name.empty()) layers[l].name = "layer" + std::to_string(l);
    if (!names.insert(layers[l].name).second) {
      detail::invalid("Optimizer", "two layers are named '", layers[l].name, "'");
    }
  }
}

void require_steps(std::string_view where, std::int64_t steps) {
  if (steps < 0) detail::invalid(where, "steps_taken must not be negative, got ", steps);
}

template <class T>
void require_shape(const Layer& layer, std::string_view what, MatrixView<T> view) {
  detail::require_view("Optimizer::step", what, view);
  if (view.rows != layer.shape.rows || view.cols != layer.shape.cols) {
    detail::invalid("Optimizer::step", "the ", what, " of '", layer.name, "' is ", view.rows, "x",
                    view.cols, "; the layer is ", layer.shape.rows, "x", layer.shape.cols);
  }
}

}  // namespace

template <class T>
Optimizer<T>::Optimizer(Method method, std::vector<Layer> layers, Execution execution)
    : method_(std::move(method)), layers_(std::move(layers)), execution_(execution) {
  validate(method_);
  name_layers(layers_);
  if (execution_.light && execution_.overwrite_gradients) {
    detail::invalid("Optimizer", "light keeps the average in the gradient buffer, ",
                    "which overwrite_gradients would destroy: choose one");
  }
  if (execution_.light && execution_.external_momentum) {
    detail::invalid("Optimizer", "light keeps the average in the gradient buffer, ",
                    "external_momentum in a buffer of its own: choose one");
  }
  if (execution_.threads < 0) {
    detail::invalid("Optimizer", "threads must not be negative, got ", execution_.threads);
  }
  if (execution_.threads == 0) execution_.threads = default_threads();
  for (auto& layer : layers_) {
    if (method_.norm) layer.norm = *method_.norm;
    if (method_.radius) layer.radius = *method_.radius;
    validate(layer);
    Slot slot{.norm = resolve(layer.norm, layer.shape), .radius = layer.radius};
    const Geometry geometry = slot.norm.geometry;
    const auto size = static_cast<size_t>(layer.shape.size());
    if (owns_momentum()) slot.momentum.resize(size);
    if (needs_buffer(geometry) && !execution_.overwrite_gradients) slot.direction.resize(size);
    slot.lengths.resize(static_cast<size_t>(direction_lengths(geometry, layer.shape)));
    if (geometry == Geometry::Operator) {
      slot.polar_state.resize(static_cast<size_t>(
          polar_state_size(slot.norm.solver, layer.shape.rows, layer.shape.cols)));
    }
    slots_.push_back(std::move(slot));
  }
  plan_pieces();
  workspaces_.resize(static_cast<size_t>(execution_.threads));
  duals_.resize(layers_.size());
  shares_.resize(layers_.size());
  norms_.resize(layers_.size());
  parameters_.reserve(layers_.size());
  report_.layers.resize(layers_.size());
}

// Longest first: the threads then finish close to each other. A tiny model runs on one.
template <class T>
void Optimizer<T>::plan_pieces() {
  double total = 0;
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Shape& shape = layers_[l].shape;
    const Geometry geometry = slots_[l].norm.geometry;
    const Index rows = needs_buffer(geometry)
                           ? std::max<Index>(1, shape.rows)
                           : std::max<Index>(1, piece_size / std::max<Index>(1, shape.cols));
    total += cost(geometry, shape.rows, shape.cols);
    for (Index begin = 0; begin < shape.rows; begin += rows) {
      Piece piece{.layer = l, .begin = begin, .end = std::min(begin + rows, shape.rows)};
      if (lengths_are_partial(geometry)) piece.lengths.resize(slots_[l].lengths.size());
      pieces_.push_back(std::move(piece));
    }
  }
  std::ranges::stable_sort(pieces_, std::greater{}, [&](const Piece& p) {
    return cost(slots_[p.layer].norm.geometry, p.end - p.begin, layers_[p.layer].shape.cols);
  });
  if (total < worth_threads) execution_.threads = 1;
  // A large matrix with more than a thread's share of the work would keep the others waiting.
  for (auto& piece : pieces_) {
    const Geometry geometry = slots_[piece.layer].norm.geometry;
    const double own = cost(geometry, piece.end - piece.begin, layers_[piece.layer].shape.cols);
    piece.team =
        geometry == Geometry::Operator && own > worth_team && own * execution_.threads > total;
  }
}

template <class T>
const StepReport& Optimizer<T>::step(std::span<const Parameter<T>> parameters) {
  prepare(parameters);
  if (report_.skipped) return report_;
  try {
    return apply(eta(report_.pairing));
  } catch (...) {
    abandon();  // or every later step would be refused
    throw;
  }
}

template <class T>
const StepReport& Optimizer<T>::prepare(std::span<const Parameter<T>> parameters) {
  if (prepared_) {
    throw std::logic_error(detail::message(
        "Optimizer::prepare", "the last directions were neither applied nor abandoned"));
  }
  const double alpha = alpha_at(step_);
  bind(parameters);
  report_.step = step_;
  report_.lr = method_.lr.at(step_);
  report_.gamma = report_.lr / rho(method_.rule);
  report_.pairing = report_.wolfe_gap = report_.direction_norm = report_.eta = 0;
  std::ranges::fill(report_.layers, LayerReport{});
  report_.clipped = false;
  report_.skipped = !gradients_finite();
  if (report_.skipped) {
    if (execution_.nonfinite == NonFinite::Throw) {
      throw NonFiniteError(detail::message("Optimizer::step", "the gradient of '",
                                           report_.nonfinite_layer,
                                           "' has an entry that is not finite"));
    }
    return report_;
  }
  find_directions(alpha);
  combine_layers(alpha);
  if (needs_direction_norm(method_.rule)) measure_direction();
  prepared_ = true;
  return report_;
}

template <class T>
double Optimizer<T>::eta(double pairing) const {
  return normball::eta(
      method_.rule, {.pairing = pairing, .direction_norm = report_.direction_norm, .step = step_});
}

template <class T>
const StepReport& Optimizer<T>::apply(double eta) {
  if (!prepared_) {
    throw std::logic_error(
        detail::message("Optimizer::apply", "prepare() must find the directions first"));
  }
  const double step = report_.gamma * eta;
  for (const auto& parameter : parameters_) {
    const double own = parameter.lr_factor * step;
    if (!(std::isfinite(own) && own >= 0) || (method_.constrained && own > 1 + 1e-12)) {
      detail::invalid("Optimizer::apply", "gamma eta must be finite, not negative",
                      method_.constrained ? " and at most 1" : "", ", got ", own);
    }
  }
  report_.eta = eta;
  report_.clipped = eta > 0 && eta >= max_eta(method_.rule);
  const double carry = light_carry(alpha_at(step_), alpha_at(step_ + 1));
  for_each_piece([&](Piece& piece, Workspace& workspace) {
    update_piece(piece, step * parameters_[piece.layer].lr_factor, carry, workspace);
  });
  even_out_workspaces();
  prepared_ = false;
  ++step_;
  return report_;
}

template <class T>
void Optimizer<T>::abandon() {
  prepared_ = false;
}

template <class T>
void Optimizer<T>::bind(std::span<const Parameter<T>> parameters) {
  if (parameters.size() != layers_.size()) {
    detail::invalid("Optimizer::step", "got ", parameters.size(), " parameters for ",
                    layers_.size(), " layers");
  }
  for (size_t l = 0; l < layers_.size(); ++l) {
    require_shape(layers_[l], "weight", parameters[l].weight);
    if (!parameters[l].has_gradient) continue;
    require_shape(layers_[l], "gradient", parameters[l].gradient);
    if (execution_.external_momentum) {
      require_shape(layers_[l], "momentum", parameters[l].momentum);
    }
    const double lr = parameters[l].lr_factor * method_.lr.at(step_);
    if (!(std::isfinite(lr) && lr >= 0) || (method_.constrained && lr > 1 + 1e-12)) {
      detail::invalid("Optimizer::step", "lr times the lr factor of '", layers_[l].name,
                      "' must be finite, not negative", method_.constrained ? " and at most 1" : "",
                      ", got ", lr);
    }
  }
  parameters_.assign(parameters.begin(), parameters.end());
}

template <class T>
bool Optimizer<T>::gradients_finite() {
  for_each_piece([&](Piece& piece, Workspace&) {
    const auto& gradient = parameters_[piece.layer].gradient;
    piece.finite = all_finite(gradient.row_range(piece.begin, piece.end));
  });
  report_.nonfinite_layer.clear();
  size_t first = layers_.size();
  for (const auto& piece : pieces_) {
    if (parameters_[piece.layer].has_gradient && !piece.finite)
      first = std::min(first, piece.layer);
  }
  if (first == layers_.size()) return true;
  report_.nonfinite_layer = layers_[first].name;
  return false;
}

template <class T>
void Optimizer<T>::find_directions(double alpha) {
  for (auto& piece : pieces_) {
    if (piece.team && parameters_[piece.layer].has_gradient) {
      find_piece(piece, alpha, workspaces_[0], execution_.threads);
    }
  }
  for_each_piece([&](Piece& piece, Workspace& workspace) {
    if (!piece.team) find_piece(piece, alpha, workspace, 1);
  });
}

template <class T>
void Optimizer<T>::find_piece(Piece& piece, double alpha, Workspace& workspace, int threads) {
  const size_t l = piece.layer;
  Slot& slot = slots_[l];
  const auto d = average(l).row_range(piece.begin, piece.end);
  if (!execution_.light) {
    update_momentum<T>(d, parameters_[l].gradient.row_range(piece.begin, piece.end), alpha);
  }
  const auto u = direction(l, &piece);
  piece.dual = find_direction<T>(slot.norm, d, u, workspace, slot.polar_state.data(), threads);
  if (method_.constrained) {
    piece.weight_pairing = dot<T>(d, parameters_[l].weight.row_range(piece.begin, piece.end));
  }
  if (execution_.report_polar_errors && slot.norm.geometry == Geometry::Operator) {
    report_.layers[l].polar_error = polar_error<T>(d, u.u, workspace);
  }
}

// Adds up the pieces, then the layers: duals, shares and s.
template <class T>
void Optimizer<T>::combine_layers(double alpha) {
  for (auto& slot : slots_) {
    slot.dual = slot.weight_pairing = 0;
    if (lengths_are_partial(slot.norm.geometry)) std::ranges::fill(slot.lengths, 0.0);
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
  const double in_buffer = execution_.light ? alpha : 1;
  double weight_pairing = 0;
  for (size_t l = 0; l < slots_.size(); ++l) {
    Slot& slot = slots_[l];
    if (lengths_are_partial(slot.norm.geometry)) {
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
  if (execution_.report_weight_norms) {
    parallel_for(static_cast<Index>(slots_.size()), execution_.threads, [&](Index i, int thread) {
      const auto l = static_cast<size_t>(i);
      report_.layers[l].weight_norm = detail::norm<T>(slots_[l].norm, parameters_[l].weight,
                                                      workspaces_[static_cast<size_t>(thread)]) /
                                      slots_[l].radius;
    });
  }
}

// ‖v‖ = the combination of ‖v_l‖_l / r_l, with v_l formed in scratch memory.
template <class T>
void Optimizer<T>::measure_direction() {
  parallel_for(static_cast<Index>(slots_.size()), execution_.threads, [&](Index i, int thread) {
    const auto l = static_cast<size_t>(i);
    norms_[l] = 0;
    if (!parameters_[l].has_gradient) return;
    Workspace& workspace = workspaces_[static_cast<size_t>(thread)];
    const Workspace::Frame frame(workspace);
    const auto weight = parameters_[l].weight;
    const auto v = workspace.matrix<T>(weight.rows, weight.cols);
    if (method_.constrained) copy<T>(weight, v);
    add_direction<T>(slots_[l].norm.geometry, average(l), direction(l, nullptr),
                     method_.constrained ? 1 : 0, unit(l), v, workspace);
    norms_[l] = detail::norm<T>(slots_[l].norm, v, workspace) / slots_[l].radius;
  });
  report_.direction_norm = combine_norms(method_.combination, norms_);
}

// W ← W − γη v, which is (1 − γη) W − γη r u where constrained; u is −lmo(d).
template <class T>
void Optimizer<T>::update_piece(const Piece& piece, double step, double carry,
                                Workspace& workspace) {
  const size_t l = piece.layer;
  const auto d = average(l).row_range(piece.begin, piece.end);
  auto u = direction(l, nullptr);
  if (slots_[l].norm.geometry == Geometry::RowL2) u.lengths += piece.begin;
  if (step != 0) {
    add_direction<T>(slots_[l].norm.geometry, d, u, method_.constrained ? 1 - step : 1,
                     -step * unit(l), parameters_[l].weight.row_range(piece.begin, piece.end),
                     workspace);
  }
  if (execution_.light) {
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

// With a piece: where its own part goes, before combine_layers() puts the parts together.
template <class T>
Direction<T> Optimizer<T>::direction(size_t layer, Piece* piece) {
  Slot& slot = slots_[layer];
  const Shape& shape = layers_[layer].shape;
  Direction<T> result{.lengths = slot.lengths.data(), .u = {}};
  if (needs_buffer(slot.norm.geometry)) {
    result.u = execution_.overwrite_gradients
                   ? parameters_[layer].gradient
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
  size_t most = 0;
  for (const auto& workspace : workspaces_) most = std::max(most, workspace.high_water());
  for (auto& workspace : workspaces_) workspace.reserve(most);
}

template <class T>
double Optimizer<T>::alpha_at(std::int64_t step) const {
  const double alpha = method_.alpha.at(step);
  if (!(alpha > 0 && alpha <= 1)) {
    detail::invalid("Optimizer::step", "alpha must be in (0, 1], but the schedule ", method_.alpha,
                    " gives ", alpha, " at step ", step);
  }
  return alpha;
}

template <class T>
std::vector<NamedBuffer<T>> Optimizer<T>::state() {
  std::vector<NamedBuffer<T>> buffers;
  for (size_t l = 0; l < slots_.size(); ++l) {
    const Shape& shape = layers_[l].shape;
    if (owns_momentum()) {
      buffers.push_back({"momentum." + layers_[l].name, average(l)});
    }
    if (!slots_[l].polar_state.empty()) {
      const Index longer = std::max(shape.rows, shape.cols);
      const auto size = static_cast<Index>(slots_[l].polar_state.size());
      buffers.push_back(
          {"basis." + layers_[l].name, {slots_[l].polar_state.data(), size / longer, longer}});
    }
  }
  return buffers;
}

template <class T>
void Optimizer<T>::load_state(std::span<const NamedBuffer<const T>> buffers,
                              std::int64_t steps_taken) {
  require_steps("Optimizer::load_state", steps_taken);
  const auto targets = state();
  if (buffers.size() != targets.size()) {
    detail::invalid("Optimizer::load_state", "got ", buffers.size(), " buffers, expected ",
                    targets.size());
  }
  std::vector<ConstMatrixView<T>> sources;
  for (const auto& target : targets) {
    const auto found = std::ranges::find(buffers, target.name, &NamedBuffer<const T>::name);
    if (found == buffers.end()) {
      detail::invalid("Optimizer::load_state", "there is no buffer '", target.name, "'");
    }
    detail::require_view("Optimizer::load_state", target.name, found->view);
    detail::require_same_size("Optimizer::load_state", target.name, found->view, "the layer's",
                              target.view);
    if (!all_finite(found->view)) {
      detail::invalid("Optimizer::load_state", target.name, " has an entry that is not finite");
    }
    sources.push_back(found->view);
  }
  set_steps_taken(steps_taken);
  for (size_t i = 0; i < targets.size(); ++i) copy<T>(sources[i], targets[i].view);
}

template <class T>
void Optimizer<T>::set_steps_taken(std::int64_t steps) {
  require_steps("Optimizer::set_steps_taken", steps);
  step_ = steps;
  prepared_ = false;
}

template <class T>
void Optimizer<T>::change(const std::function<void(Method&)>& edit) {
  Method changed = method_;
  edit(changed);
  validate(changed);
  method_ = std::move(changed);
}

template <class T>
void Optimizer<T>::set_lr(Schedule lr) {
  change([&](Method& method) { method.lr = lr; });
}

template <class T>
void Optimizer<T>::set_alpha(Schedule alpha) {
  change([&](Method& method) { method.alpha = alpha; });
}

template <class T>
void Optimizer<T>::set_rule(StepRule rule) {
  change([&](Method& method) { method.rule = rule; });
}

template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace normball
