#include "normball/internal/step/passes.h"

#include <cmath>
#include <limits>

#include "normball/base/error.h"

namespace normball::detail {

template <class T>
Passes<T>::Passes(const std::vector<Layer>& layers, const Execution& execution,
                  std::shared_ptr<Peers<T>> peers)
    : undoable_(execution.undoable),
      report_weight_norms_(execution.report_weight_norms),
      external_(execution.external_momentum) {
  if (peers) shared_.emplace(std::move(peers), layers);
  std::vector<LayerWork> loads;
  layers_.reserve(layers.size());
  for (const auto& layer : layers) {
    const size_t l = layers_.size();
    const Holding whole{.rows = {0, layer.shape.rows}};
    const Holding held = shared_ ? shared_->held(l) : whole;
    layers_.emplace_back(layer, execution, held);
    if (held.elsewhere() && !layers_.back().buffers().stored()) {
      throw_invalid("Optimizer", "the direction of '", layer.name,
                    "' is not stored, so no process can own it: see share_layers()");
    }
    if (held.divided() && resolve(layer.norm, layer.shape).geometry != Geometry::MaxAbs) {
      throw_invalid("Optimizer", "'", layer.name, "' has the norm ", layer.norm,
                    ", but only layers with the sign norm are divided by rows: see share_layers()");
    }
    loads.push_back({layer.shape, layers_.back().rules(), held.elsewhere()});
    move_scratch_ = std::max(move_scratch_, layers_.back().move_scratch());
  }
  work_ = divide_work(loads, execution.threads == 0 ? default_threads() : execution.threads);
  for (const auto& item : work_.items) layers_[item.layer].add_part(item.begin, item.end);
  for (size_t l = 0; l < layers_.size(); ++l) {
    if (shared_ && shared_->held(l).divided()) layers_[l].connect(*shared_, l);
  }
  workspaces_.resize(static_cast<size_t>(work_.threads));
  duals_.resize(layers.size());
  shares_.resize(layers.size());
  norms_.resize(layers.size());
  targets_.reserve(3 * layers.size());
}

template <class T>
void Passes<T>::begin(std::span<const Parameter<T>> parameters, const Method& method,
                      const StepStart& start) {
  constexpr auto where = "Optimizer::step";
  problem_ = {};
  failure_ = nullptr;
  try {
    bind(where, parameters, method, start);
  } catch (const std::exception& error) {
    if (shared_) agree({.text = error.what()});
    throw;
  }
}

template <class T>
void Passes<T>::bind(std::string_view where, std::span<const Parameter<T>> parameters,
                     const Method& method, const StepStart& start) {
  const std::int64_t step = start.step;
  const double alpha = method.alpha.at(step);
  if (!(alpha > 0 && alpha <= 1)) {
    throw_invalid(where, "alpha must be in (0, 1], but the schedule ", method.alpha, " gives ",
                  alpha, " at step ", step);
  }
  double next_alpha = method.alpha.at(step + 1);
  if (!(next_alpha > 0 && next_alpha <= 1)) next_alpha = alpha;  // that step will be refused
  require_parameters(where, layers_, parameters, method, method.lr.at(step));
  for (size_t l = 0; l < layers_.size(); ++l) {
    if (!parameters[l].has_gradient) continue;
    layers_[l].buffers().require_scaled_for(where, layers_[l].name(), alpha);
  }
  require_apart(where, layers_, parameters, targets_);
  measures_distance_ = needs_distance(method.rule);
  if (measures_distance_ && external_) require_starts(where, layers_, parameters);
  const bool asks = start.decides && needs_loss(method.rule);
  if (asks) require_loss(where, method.rule, start.loss);
  loss_finite_ = !asks || std::isfinite(*start.loss);
  combination_ = method.combination;
  distance_ = 0;
  for (size_t l = 0; l < layers_.size(); ++l) {
    layers_[l].bind(parameters[l], method.constrained, alpha, next_alpha);
    if (measures_distance_ && start.first) layers_[l].take_start(parameters[l].weight);
  }
  const bool certain =
      !undoable_ && !may_overflow(method, step) && !needs_direction_norm(method.rule);
  for (auto& layer : layers_) layer.buffers().choose_early(certain);
  facts_ = {.step = step, .lr = method.lr.at(step), .alpha = alpha, .layers = 1};
  if (asks) facts_.loss = *start.loss;
  for (const auto& layer : layers_) {  // FNV-1a, a bit at a time
    facts_.layers = (facts_.layers ^ (layer.takes_part() ? 1u : 0u)) * 1099511628211u;
  }
}

// Whether s or the step could leave the range of their types, whatever finite numbers gradients,
// averages and weights are. Sums of floats are in double, so it takes an extreme lr or radius.
template <class T>
bool Passes<T>::may_overflow(const Method& method, std::int64_t step) const {
  constexpr auto largest = static_cast<double>(std::numeric_limits<T>::max());
  double s = 0, longest = 0;
  for (const auto& layer : layers_) {
    if (!layer.takes_part()) continue;
    const auto size = static_cast<double>(layer.shape().size());
    s += size * largest * (layer.radius() + (method.constrained ? largest : 0));
    longest = std::max(longest, layer.parameter().lr_factor * std::max(1.0, layer.radius()));
  }
  if (!std::isfinite(s)) return true;
  const double gamma = method.lr.at(step) / rho(method.rule);
  const double most = memory_size(method.rule) > 0
                          ? max_eta(method.rule)
                          : eta(method.rule, {.pairing = s, .direction_norm = 1, .step = step});
  return !(gamma * most * longest <= largest);
}

template <class T>
bool Passes<T>::idle() const {
  return std::ranges::none_of(layers_, &LayerStep<T>::takes_part);
}

template <class T>
void Passes<T>::find_directions(Find body) {
  for_each([](LayerStep<T>& layer, const Share& share) { layer.look_ahead(share.part); });
  if (!shared_) return find_stages(body);
  agree(own_problem());
  if (!problem_.text.empty()) return;
  start_sharing();
  try {
    find_stages(body);
  } catch (...) {
    failure_ = std::current_exception();  // until the others know
  }
}

template <class T>
void Passes<T>::find_stages(Find body) {
  if (report_weight_norms_ && finite()) {
    parallel_for(static_cast<Index>(layers_.size()), work_.threads, [&](Index i, int thread) {
      LayerStep<T>& layer = layers_[static_cast<size_t>(i)];
      layer.report().weight_norm =
          layer.weight_norm(layer.parameter().weight, workspaces_[static_cast<size_t>(thread)]);
    });
  }
  if (measures_distance_ && finite())
    measure_distance();  // a user's norm may fail: before the rest
  for (const Stage stage : {Stage::Stored, Stage::Overwriting, Stage::Elementwise}) {
    if (finite()) find_stage(stage, body);
  }
}

template <class T>
void Passes<T>::measure_distance() {
  parallel_for(static_cast<Index>(layers_.size()), work_.threads, [&](Index i, int thread) {
    const auto l = static_cast<size_t>(i);
    norms_[l] = layers_[l].distance(workspaces_[static_cast<size_t>(thread)]);
  });
  distance_ = combine_norms(combination_, norms_);
}

template <class T>
void Passes<T>::write_directions(std::span<const MatrixView<T>> out) {
  parallel_for(static_cast<Index>(layers_.size()), work_.threads, [&](Index i, int thread) {
    const auto l = static_cast<size_t>(i);
    layers_[l].write_direction(out[l], workspaces_[static_cast<size_t>(thread)]);
  });
}

template <class T>
double Passes<T>::slope() const {
  double sum = 0;
  for (size_t l = 0; l < layers_.size(); ++l) {
    if (!layers_[l].takes_part()) continue;
    const double pairing = layers_[l].weight_pairing() + shares_[l] * layers_[l].dual();
    sum += layers_[l].parameter().lr_factor * pairing;
  }
  return sum;
}

template <class T>
void Passes<T>::make_starts(const Method& method) {
  if (!needs_distance(method.rule) || external_) return;
  for (auto& layer : layers_) layer.make_start();
}

template <class T>
typename Passes<T>::Stage Passes<T>::stage(LayerStep<T>& layer) {
  if (!layer.buffers().stored()) return Stage::Elementwise;
  return layer.buffers().overwrites() ? Stage::Overwriting : Stage::Stored;
}

template <class T>
void Passes<T>::find_stage(Stage now, Find body) {
  const auto due = [&](const WorkItem& item) {
    LayerStep<T>& layer = layers_[item.layer];
    return stage(layer) == now && layer.takes_part() && layer.has(item.part);
  };
  const auto first = std::ranges::find_if(work_.items, due);
  if (first == work_.items.end()) return;
  if (layers_[first->layer].buffers().early()) {
    even_out_workspaces();  // the last thing that can fail
    settled_ = false;
  }
  const auto find = [&](const WorkItem& item, Workspace& workspace, int threads) {
    const Workspace::Frame frame(workspace);
    body(layers_[item.layer], {item.part, workspace, threads});
    if (shared_ && shared_->sent(item.layer)) shared_->peers().found(item.layer);
  };
  for (const auto& item : work_.items) {
    if (item.team && due(item)) find(item, workspaces_[0], work_.threads);
  }
  parallel_for(static_cast<Index>(work_.items.size()), work_.threads, [&](Index i, int thread) {
    const WorkItem& item = work_.items[static_cast<size_t>(i)];
    if (!item.team && due(item)) find(item, workspaces_[static_cast<size_t>(thread)], 1);
  });
}

template <class T>
double Passes<T>::combine(const Method& method, std::span<LayerReport> reports) {
  const bool usable = finite() && failure_ == nullptr;
  for (auto& layer : layers_) {
    if (usable && !layer.elsewhere()) layer.add_up_parts();
  }
  if (shared_ && problem_.text.empty()) exchange_sums();
  if (!finite()) return std::numeric_limits<double>::quiet_NaN();
  double weight_pairing = 0;
  for (size_t l = 0; l < layers_.size(); ++l) {
    duals_[l] = layers_[l].dual();
    weight_pairing += layers_[l].weight_pairing();
  }
  const double s = weight_pairing + combine_duals(method.combination, duals_, shares_);
  for (size_t l = 0; l < layers_.size(); ++l) {
    layers_[l].set_share(shares_[l]);
    LayerReport& report = layers_[l].report();
    report.dual_norm = duals_[l];
    report.pairing = layers_[l].weight_pairing() + shares_[l] * duals_[l];
    reports[l] = report;
  }
  return s;
}

template <class T>
double Passes<T>::measure_direction(const Method& method) {
  double size = 0;
  if (needs_direction_norm(method.rule) && finite()) {
    parallel_for(static_cast<Index>(layers_.size()), work_.threads, [&](Index i, int thread) {
      const auto l = static_cast<size_t>(i);
      norms_[l] = layers_[l].direction_norm(workspaces_[static_cast<size_t>(thread)]);
    });
    size = combine_norms(method.combination, norms_);
  }
  even_out_workspaces();  // here, so that nothing in the last pass can fail
  return size;
}

template <class T>
bool Passes<T>::measure(const Method& method, StepReport& report) {
  report.wolfe_gap = method.constrained ? report.pairing : 0;
  report.direction_norm = measure_direction(method);
  report.distance = distance_;  // ‖x − x_0‖, where the rule needs it, else 0
  report.slope = slope();
  return std::isfinite(report.pairing + report.direction_norm + report.distance);
}

template <class T>
void Passes<T>::finish() {
  settled_ = true;
  for (auto& layer : layers_) {
    if (layer.takes_part()) layer.buffers().expect_next_alpha();
  }
}

template <class T>
void Passes<T>::settle() {
  if (settled_) return;
  for (const auto& item : work_.items) {
    if (layers_[item.layer].takes_part()) layers_[item.layer].take_gradient(item.part);
  }
  settled_ = true;
}

template <class T>
void Passes<T>::start_afresh() {
  settled_ = true;
  for (auto& layer : layers_) layer.buffers().forget_alpha();
}

template <class T>
StepProblem Passes<T>::problem() {
  return problem_.text.empty() ? own_problem() : problem_;
}

template <class T>
StepProblem Passes<T>::own_problem() {
  if (!loss_finite_) return {.text = "the loss is not finite", .nonfinite = true};
  const auto bad = std::ranges::find(layers_, false, &LayerStep<T>::finite);
  if (bad == layers_.end()) return {};
  const std::string& name = bad->name();
  const char* const what = bad->nonfinite_input();
  return {.text = what ? std::string("the ") + what + " of '" + name +
                             "' has an entry that is not finite"
                       : "s is not finite, because of the pairing of '" + name + "'",
          .layer = name,
          .nonfinite = true};
}

// A number that is not finite is the optimizer's to deal with, in all processes alike.
template <class T>
void Passes<T>::agree(const StepProblem& own) {
  problem_ = shared_->agree(facts_, own);
  if (!problem_.text.empty() && !problem_.nonfinite && (own.text.empty() || own.nonfinite)) {
    throw std::runtime_error(error_message("Optimizer::step", problem_.text));
  }
}

template <class T>
void Passes<T>::start_sharing() {
  directions_.clear();
  for (size_t l = 0; l < layers_.size(); ++l) {
    const bool sent = shared_->sent(l) && layers_[l].takes_part();
    directions_.push_back(sent ? layers_[l].buffers().direction() : MatrixView<T>{});
  }
  shared_->peers().start(directions_);
}

template <class T>
void Passes<T>::exchange_sums() {
  StepProblem own = own_problem();
  if (failure_) {
    try {
      std::rethrow_exception(failure_);
    } catch (const std::exception& error) {
      own = {.text = error.what()};
    } catch (...) {
      own = {.text = "an exception of an unknown type"};
    }
  }
  sums_.clear();
  for (const auto& layer : layers_) layer.append_sums(sums_);
  bool taken = !settled_;
  problem_ = shared_->exchange(sums_, own, taken);
  settled_ = !taken;
  if (failure_) std::rethrow_exception(failure_);
  if (!problem_.text.empty() && !problem_.nonfinite) {
    throw std::runtime_error(error_message("Optimizer::step", problem_.text));
  }
  std::span<const LayerSum> rest = sums_;
  for (auto& layer : layers_) rest = layer.take_sums(rest);
}

template <class T>
std::span<const double> Passes<T>::weight_norms(std::span<const Parameter<T>> parameters) {
  parallel_for(static_cast<Index>(layers_.size()), work_.threads, [&](Index i, int thread) {
    const auto l = static_cast<size_t>(i);
    norms_[l] =
        layers_[l].weight_norm(parameters[l].weight, workspaces_[static_cast<size_t>(thread)]);
  });
  return norms_;
}

// Any thread may meet any layer next time: give each what the hungriest has needed so far.
template <class T>
void Passes<T>::even_out_workspaces() {
  std::size_t most = move_scratch_;
  for (const auto& workspace : workspaces_) most = std::max(most, workspace.high_water());
  for (auto& workspace : workspaces_) workspace.reserve(most);
}

template class Passes<float>;
template class Passes<double>;

}  // namespace normball::detail
