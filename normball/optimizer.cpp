#include "normball/optimizer.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

#include "normball/error.h"
#include "normball/kernels.h"
#include "normball/parallel.h"

namespace normball {
namespace {

// Elements of a piece: half a megabyte of floats stays in the second-level cache.
constexpr Index piece_size = 1 << 17;

// Rough nanoseconds of a step on a piece, for their order and for whether threads are worth waking.
double cost(Geometry geometry, Index rows, Index cols) {
  const double size = static_cast<double>(rows) * static_cast<double>(cols);
  return geometry == Geometry::Operator
             ? size * (20 + 2 * static_cast<double>(std::min(rows, cols)))
             : size;
}
constexpr double worth_threads = 50e3;
template <class T>
constexpr auto largest = static_cast<double>(std::numeric_limits<T>::max());
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

void require_count(std::string_view where, size_t got, size_t layers) {
  if (got != layers) {
    detail::invalid(where, "got ", got, " parameters for ", layers, " layers");
  }
}

template <class T>
void require_shape(std::string_view where, const Layer& layer, std::string_view what,
                   MatrixView<T> view) {
  if (view.data == nullptr && !view.empty()) {
    detail::invalid(where, "the ", what, " of '", layer.name, "' has null data");
  }
  detail::require_view(where, what, view);
  if (view.rows != layer.shape.rows || view.cols != layer.shape.cols) {
    detail::invalid(where, "the ", what, " of '", layer.name, "' is ", view.rows, "x", view.cols,
                    "; the layer is ", layer.shape.rows, "x", layer.shape.cols);
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
  if (execution_.threads < 0 || execution_.threads > max_threads) {
    detail::invalid("Optimizer", "threads must be from 0 (OpenMP's default) to ", max_threads,
                    ", got ", execution_.threads);
  }
  if (execution_.threads == 0) execution_.threads = default_threads();
  for (auto& layer : layers_) {
    validate(layer);  // its own radius too, where the method has another
    if (method_.norm) layer.norm = *method_.norm;
    if (method_.radius) layer.radius = *method_.radius;
    validate(layer);
    slots_.push_back({.norm = resolve(layer.norm, layer.shape), .radius = layer.radius});
    Slot& slot = slots_.back();
    const Geometry geometry = slot.norm.geometry;
    const auto size = static_cast<size_t>(layer.shape.size());
    if (owns_momentum()) slot.momentum.resize(size);
    if (needs_buffer(geometry) && !overwrites(slots_.size() - 1)) slot.direction.resize(size);
    slot.lengths.resize(static_cast<size_t>(direction_lengths(geometry, layer.shape)));
    if (geometry == Geometry::Operator) {
      slot.polar_state.resize(static_cast<size_t>(
          polar_state_size(slot.norm.solver, layer.shape.rows, layer.shape.cols)));
      slot.next_polar_state.resize(slot.polar_state.size());
    }
  }
  plan_pieces();
  for (size_t l = 0; l < slots_.size(); ++l) {
    update_scratch_ =
        std::max(update_scratch_, add_direction_scratch(slots_[l].norm.geometry, layers_[l].shape));
  }
  workspaces_.resize(static_cast<size_t>(execution_.threads));
  duals_.resize(layers_.size());
  shares_.resize(layers_.size());
  norms_.resize(layers_.size());
  parameters_.reserve(layers_.size());
  targets_.reserve(3 * layers_.size());
  report_.layers.resize(layers_.size());
}

// Longest first: the threads then finish close to each other. A tiny model runs on one.
template <class T>
void Optimizer<T>::plan_pieces() {
  double total = 0;
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Shape& shape = layers_[l].shape;
    const Geometry geometry = slots_[l].norm.geometry;
    if (shape.size() == 0) continue;  // however many empty rows it has
    const Index rows =
        needs_buffer(geometry) ? shape.rows : std::max<Index>(1, piece_size / shape.cols);
    total += cost(geometry, shape.rows, shape.cols);
    for (Index begin = 0; begin < shape.rows; begin += rows) {
      Piece piece{.layer = l, .begin = begin, .end = std::min(begin + rows, shape.rows)};
      if (detail::lengths_are_partial(geometry)) piece.lengths.resize(slots_[l].lengths.size());
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
  if (std::ranges::none_of(parameters_, &Parameter<T>::has_gradient)) {
    abandon();
    report_.skipped = true;
  }
  if (report_.skipped) return report_;
  try {
    return apply(eta(report_.pairing));
  } catch (...) {
    revert();  // or every later step would be refused
    throw;
  }
}

template <class T>
const StepReport& Optimizer<T>::prepare(std::span<const Parameter<T>> parameters) {
  if (prepared_) {
    throw std::logic_error(detail::message(
        "Optimizer::prepare", "the last directions were neither applied nor abandoned"));
  }
  alpha_ = alpha_at(step_);
  next_alpha_ = method_.alpha.at(step_ + 1);
  if (!(next_alpha_ > 0 && next_alpha_ <= 1)) next_alpha_ = alpha_;  // that step will be refused
  bind(parameters);
  clear_report();
  may_overflow_ = may_overflow();
  for (auto& piece : pieces_) {
    piece.finite = true;
    piece.taken = false;
  }
  try {
    find_directions();
    if (all_pieces_finite()) {
      combine_layers();
      if (needs_direction_norm(method_.rule)) measure_direction();
    }
    even_out_workspaces();  // here, so that nothing in apply() can fail
  } catch (...) {
    settle();
    throw;
  }
  if (!all_pieces_finite() || !std::isfinite(report_.pairing + report_.direction_norm)) {
    return refuse();
  }
  prepared_ = true;
  return report_;
}

template <class T>
void Optimizer<T>::clear_report() {
  report_.step = step_;
  report_.lr = method_.lr.at(step_);
  report_.gamma = report_.lr / rho(method_.rule);
  report_.pairing = report_.wolfe_gap = report_.direction_norm = report_.eta = 0;
  report_.clipped = report_.stalled = report_.skipped = false;
  report_.nonfinite_layer.clear();
  std::ranges::fill(report_.layers, LayerReport{});
}

// Names the first layer with an entry, or else a pairing, that is not finite.
template <class T>
const StepReport& Optimizer<T>::refuse() {
  settle();
  clear_report();
  report_.skipped = true;
  size_t bad = layers_.size();
  for (const auto& piece : pieces_) {
    if (!piece.finite) bad = std::min(bad, piece.layer);
  }
  std::string reason = "s or the norm of v overflows";
  if (bad < layers_.size()) {
    report_.nonfinite_layer = layers_[bad].name;
    const auto& parameter = parameters_[bad];
    const char* what = !all_finite(parameter.gradient) ? "gradient"
                       : !all_finite(average(bad))     ? "momentum"
                       : !all_finite(parameter.weight) ? "weight"
                                                       : nullptr;
    reason = what ? std::string("the ") + what + " of '" + report_.nonfinite_layer +
                        "' has an entry that is not finite"
                  : "s is not finite, because of the pairing of '" + report_.nonfinite_layer + "'";
  }
  if (execution_.nonfinite == NonFinite::Throw) {
    throw NonFiniteError(detail::message("Optimizer::step", reason), report_.nonfinite_layer);
  }
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
  require_step(eta);
  const double step = report_.gamma * eta;
  report_.eta = eta;
  report_.clipped = is_clipped(method_.rule, eta);
  report_.stalled = method_.constrained && eta == 0 && report_.pairing < 0;
  move_weights(step);
  for (size_t l = 0; l < slots_.size(); ++l) {
    if (execution_.light && parameters_[l].has_gradient) slots_[l].scaled_for = next_alpha_;
  }
  prepared_ = false;
  ++step_;
  return report_;
}

template <class T>
void Optimizer<T>::require_step(double eta) const {
  for (size_t l = 0; l < parameters_.size(); ++l) {
    if (!parameters_[l].has_gradient) continue;
    const double own = parameters_[l].lr_factor * report_.gamma * eta;
    if (!(std::isfinite(own) && own >= 0) || (method_.constrained && own > 1 + 1e-12)) {
      detail::invalid("Optimizer::apply", "gamma eta must be finite, not negative",
                      method_.constrained ? " and at most 1" : "", ", got ", own);
    }
    if (!(own * unit(l) <= largest<T>)) {
      detail::invalid("Optimizer::apply", "the step of '", layers_[l].name, "' is ", own * unit(l),
                      " long, beyond the numbers of its type: lower the lr or the radius");
    }
  }
}

// Whether s or the step could leave the range of their types, whatever finite numbers gradients,
// averages and weights are. Sums of floats are in double, so it takes an extreme lr or radius.
template <class T>
bool Optimizer<T>::may_overflow() const {
  double s = 0, longest = 0;
  for (size_t l = 0; l < slots_.size(); ++l) {
    if (!parameters_[l].has_gradient) continue;
    const auto size = static_cast<double>(layers_[l].shape.size());
    const double radius = slots_[l].norm.scale * slots_[l].radius;
    s += size * largest<T> * (radius + (method_.constrained ? largest<T> : 0));
    longest = std::max(longest, parameters_[l].lr_factor * std::max(1.0, radius));
  }
  if (!std::isfinite(s)) return true;
  const double most =
      normball::eta(method_.rule, {.pairing = s, .direction_norm = 1, .step = step_});
  return !(report_.gamma * most * longest <= largest<T>);
}

template <class T>
void Optimizer<T>::abandon() {
  if (prepared_ && !execution_.undoable) settled_ = false;
  revert();
}

template <class T>
void Optimizer<T>::revert() {
  settle();
  prepared_ = false;
}

template <class T>
void Optimizer<T>::bind(std::span<const Parameter<T>> parameters) {
  constexpr auto where = "Optimizer::step";
  require_count(where, parameters.size(), layers_.size());
  for (size_t l = 0; l < layers_.size(); ++l) {
    require_shape(where, layers_[l], "weight", parameters[l].weight);
    if (!parameters[l].has_gradient) continue;
    require_shape(where, layers_[l], "gradient", parameters[l].gradient);
    require_scaled_for("Optimizer::step", l, alpha_);
    if (execution_.external_momentum) {
      require_shape(where, layers_[l], "momentum", parameters[l].momentum);
    }
    const double lr = parameters[l].lr_factor * method_.lr.at(step_);
    if (!(std::isfinite(lr) && lr >= 0) || (method_.constrained && lr > 1 + 1e-12)) {
      detail::invalid("Optimizer::step", "lr times the lr factor of '", layers_[l].name,
                      "' must be finite, not negative", method_.constrained ? " and at most 1" : "",
                      ", got ", lr);
    }
  }
  require_apart(parameters);
  parameters_.assign(parameters.begin(), parameters.end());
}

// What the next gradient will be added to cannot be scaled anew.
template <class T>
void Optimizer<T>::require_scaled_for(std::string_view where, size_t layer, double alpha) const {
  const double expected = slots_[layer].scaled_for;
  if (expected == 0 || alpha == expected) return;
  detail::invalid(where, "alpha is ", alpha, ", but light has scaled the average of '",
                  layers_[layer].name, "' for ", expected,
                  " already: give alpha as a schedule from the start, without leaving layers out ",
                  "while it changes, or do without light");
}

// Threads write to all of these at once, and a momentum must outlast the weight's update.
template <class T>
void Optimizer<T>::require_apart(std::span<const Parameter<T>> parameters) {
  targets_.clear();
  for (size_t l = 0; l < layers_.size(); ++l) {
    const auto& parameter = parameters[l];
    if (!parameter.has_gradient || parameter.weight.empty()) continue;
    targets_.push_back({parameter.weight, l, "weight"});
    if (execution_.external_momentum) targets_.push_back({parameter.momentum, l, "momentum"});
    if (execution_.light || overwrites(l)) {
      targets_.push_back({parameter.gradient, l, "gradient"});
    }
  }
  require_targets_apart("Optimizer::step");
}

template <class T>
void Optimizer<T>::require_targets_apart(std::string_view where) {
  std::ranges::sort(targets_, std::less{}, [](const Target& target) { return target.view.data; });
  for (auto one = targets_.begin(); one != targets_.end(); ++one) {
    const T* const end = one->view.row(one->view.rows - 1) + one->view.cols;
    for (auto other = std::next(one); other != targets_.end() && std::less{}(other->view.data, end);
         ++other) {
      if (!detail::overlap(one->view, other->view)) continue;
      detail::invalid(where, "the ", one->what, " of '", layers_[one->layer].name, "' and the ",
                      other->what, " of '", layers_[other->layer].name,
                      "' share memory, and both are written to: give each its own");
    }
  }
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
double Optimizer<T>::scale_into_balls(std::span<const Parameter<T>> parameters) {
  if (prepared_) {
    throw std::logic_error(detail::message("Optimizer::scale_into_balls",
                                           "apply or abandon the last directions first"));
  }
  constexpr auto where = "Optimizer::scale_into_balls";
  require_count(where, parameters.size(), layers_.size());
  for (size_t l = 0; l < layers_.size(); ++l) {
    require_shape(where, layers_[l], "weight", parameters[l].weight);
  }
  targets_.clear();
  for (size_t l = 0; l < layers_.size(); ++l) {
    if (!parameters[l].weight.empty()) targets_.push_back({parameters[l].weight, l, "weight"});
  }
  require_targets_apart(where);
  measure_weights(parameters);
  for (size_t l = 0; l < layers_.size(); ++l) {
    if (!std::isfinite(norms_[l])) {
      throw NonFiniteError(
          detail::message("Optimizer::scale_into_balls", "the norm of the weight '",
                          layers_[l].name, "' is ", norms_[l], "; nothing was changed"),
          layers_[l].name);
    }
  }
  const double whole = combine_norms(method_.combination, norms_);
  for (size_t l = 0; l < layers_.size(); ++l) {
    const double size = method_.combination == Combination::Max ? norms_[l] : whole;
    if (!(size > 1)) continue;
    const auto weight = parameters[l].weight;
    for_each_run(weight,
                 [&](Index at, Index n) { kernels<T>().scale(weight.data + at, 1 / size, n); });
  }
  return whole;
}

// The other members are instantiated beside their definitions.
#define NORMBALL_INSTANTIATE(T)                                                           \
  template Optimizer<T>::Optimizer(Method, std::vector<Layer>, Execution);                \
  template const StepReport& Optimizer<T>::step(std::span<const Parameter<T>>);           \
  template const StepReport& Optimizer<T>::prepare(std::span<const Parameter<T>>);        \
  template double Optimizer<T>::eta(double) const;                                        \
  template const StepReport& Optimizer<T>::apply(double);                                 \
  template void Optimizer<T>::require_scaled_for(std::string_view, size_t, double) const; \
  template void Optimizer<T>::require_step(double) const;                                 \
  template void Optimizer<T>::abandon();                                                  \
  template void Optimizer<T>::revert();                                                   \
  template double Optimizer<T>::scale_into_balls(std::span<const Parameter<T>>);
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball
