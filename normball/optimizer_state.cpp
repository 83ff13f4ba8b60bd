// What the rule sees and remembers, and what is done between steps: the state, the method, and
// weights that start outside of their balls.
#include <algorithm>
#include <cmath>
#include <utility>

#include "normball/base/error.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/internal/step/passes.h"
#include "normball/joint_step.h"
#include "normball/optimizer.h"

namespace normball {
namespace {

void require_steps(std::string_view where, std::int64_t steps) {
  if (steps < 0 || steps > max_steps) {
    throw_invalid(where, "steps_taken must be from 0 to ", max_steps, ", got ", steps);
  }
}

}  // namespace

template <class T>
void Optimizer<T>::Delete::operator()(detail::Passes<T>* passes) const {
  delete passes;
}

// One that was moved from has no layers, and says so.
template <class T>
detail::Passes<T>& Optimizer<T>::passes() const {
  if (passes_) return *passes_;
  static thread_local detail::Passes<T> none({}, {.threads = 1});
  return none;
}

template <class T>
double Optimizer<T>::eta(double pairing) const {
  if (!memory_.empty()) {
    throw_invalid("Optimizer::eta", "the rule '", method_.rule, "' remembers what it has seen, ",
                  "which prepare() and apply() leave to their driver: keep its memory for ",
                  "decide_step(), or call step()");
  }
  return decide_step(method_, pairing, report_.direction_norm, step_).eta;
}

template <class T>
void Optimizer<T>::direction(std::span<const MatrixView<T>> out) {
  constexpr auto where = "Optimizer::direction";
  if (!prepared_) throw std::logic_error(error_message(where, "call prepare() first"));
  if (!execution_.undoable) {
    throw std::logic_error(error_message(where,
                                         "construct the optimizer with Execution::undoable, ",
                                         "or averages have changed already"));
  }
  if (out.size() != layers_.size()) {
    throw_invalid(where, "got ", out.size(), " matrices for ", layers_.size(), " layers");
  }
  for (size_t l = 0; l < out.size(); ++l) {
    if (out[l].rows != layers_[l].shape.rows || out[l].cols != layers_[l].shape.cols) {
      throw_invalid(where, "the matrix of '", layers_[l].name, "' is ", out[l].rows, "x",
                    out[l].cols, ", the layer ", layers_[l].shape.rows, "x", layers_[l].shape.cols);
    }
  }
  passes().write_directions(out);
}

template <class T>
StepInput Optimizer<T>::rule_input() const {
  return {.pairing = report_.pairing,
          .direction_norm = report_.direction_norm,
          .step = step_,
          .distance = report_.distance,
          .slope = report_.slope,
          .gamma = report_.gamma,
          .alpha = method_.alpha.at(step_),
          .loss = loss_,
          .memory = memory_};
}

template <class T>
double Optimizer<T>::rule_eta() const {
  return normball::eta(method_.rule, rule_input());
}

template <class T>
void Optimizer<T>::abandon() {
  if (prepared_ && !execution_.undoable) passes().keep_gradients();
  revert();
}

template <class T>
void Optimizer<T>::revert() {
  passes().settle();
  prepared_ = false;
}

template <class T>
std::vector<NamedBuffer<T>> Optimizer<T>::state() {
  std::vector<NamedBuffer<T>> buffers;
  for (auto& layer : passes().layers()) {
    if (layer.buffers().owns_average()) {
      buffers.push_back({"momentum." + layer.name(), layer.buffers().average()});
    }
    if (const auto basis = layer.solver_state(); !basis.empty()) {
      buffers.push_back({"basis." + layer.name(), basis});
    }
    if (const auto start = layer.start(); !start.empty()) {
      buffers.push_back({"start." + layer.name(), start});
    }
  }
  return buffers;
}

template <class T>
void Optimizer<T>::load_state(std::span<const NamedBuffer<const T>> buffers,
                              std::int64_t steps_taken, std::span<const double> rule_memory) {
  require_steps("Optimizer::load_state", steps_taken);
  require_rule_memory("Optimizer::load_state", method_.rule, rule_memory, steps_taken == 0);
  const auto targets = state();
  if (buffers.size() != targets.size()) {
    throw_invalid("Optimizer::load_state", "got ", buffers.size(), " buffers, expected ",
                  targets.size());
  }
  std::vector<ConstMatrixView<T>> sources;
  for (const auto& target : targets) {
    const auto found = std::ranges::find(buffers, target.name, &NamedBuffer<const T>::name);
    if (found == buffers.end()) {
      throw_invalid("Optimizer::load_state", "there is no buffer '", target.name, "'");
    }
    require_view("Optimizer::load_state", found->view, target.name);
    require_same_size("Optimizer::load_state", target.name, found->view, "the layer's",
                      target.view);
    if (!all_finite(found->view)) {
      throw_invalid("Optimizer::load_state", target.name, " has an entry that is not finite");
    }
    sources.push_back(found->view);
  }
  set_steps_taken(steps_taken);
  memory_.assign(memory_.size(), 0);
  std::ranges::copy(rule_memory, memory_.begin());
  for (size_t i = 0; i < targets.size(); ++i) copy<T>(sources[i], targets[i].view);
}

template <class T>
void Optimizer<T>::set_steps_taken(std::int64_t steps) {
  require_steps("Optimizer::set_steps_taken", steps);
  prepared_ = false;
  passes().start_afresh();
  step_ = steps;
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
  const Schedule before = std::exchange(method_.lr, lr);  // no copy of the method: no allocation
  try {
    validate(method_);
  } catch (...) {
    method_.lr = before;
    throw;
  }
}

template <class T>
void Optimizer<T>::set_alpha(Schedule alpha) {
  change([&](Method& method) {
    method.alpha = alpha;
    validate(method);
    for (auto& layer : passes().layers()) {
      layer.buffers().require_scaled_for("Optimizer::set_alpha", layer.name(), alpha.at(step_));
    }
  });
}

template <class T>
void Optimizer<T>::set_rule(StepRule rule) {
  const bool other = rule.index() != method_.rule.index();
  change([&](Method& method) { method.rule = rule; });
  if (!other) return;
  memory_.assign(memory_size(rule), 0);
  passes().make_starts(method_);
}

template <class T>
void Optimizer<T>::set_rho(double rho) {
  change([&](Method& method) { normball::set_rho(method.rule, rho); });
}

template <class T>
double Optimizer<T>::scale_into_balls(std::span<const Parameter<T>> parameters) {
  constexpr auto where = "Optimizer::scale_into_balls";
  require_unprepared(where, "apply or abandon the last directions first");
  detail::require_weights(where, passes().layers(), parameters);
  std::vector<detail::Target<T>> targets;
  for (size_t l = 0; l < layers_.size(); ++l) {
    if (!parameters[l].weight.empty()) targets.push_back({parameters[l].weight, l, "weight"});
  }
  detail::require_targets_apart(where, passes().layers(), targets);
  const auto norms = passes().weight_norms(parameters);
  for (size_t l = 0; l < layers_.size(); ++l) {
    if (std::isfinite(norms[l])) continue;
    throw NonFiniteError(error_message(where, "the norm of the weight '", layers_[l].name, "' is ",
                                       norms[l], "; nothing was changed"),
                         layers_[l].name);
  }
  const double whole = combine_norms(method_.combination, norms);
  for (size_t l = 0; l < layers_.size(); ++l) {
    const double size = method_.combination == Combination::Max ? norms[l] : whole;
    if (!(size > 1)) continue;
    const auto weight = parameters[l].weight;
    for_each_run(weight,
                 [&](Index at, Index n) { kernels<T>().scale(weight.data + at, 1 / size, n); });
  }
  return whole;
}

#define NORMBALL_INSTANTIATE(T)                                                               \
  template void Optimizer<T>::Delete::operator()(detail::Passes<T>*) const;                   \
  template detail::Passes<T>& Optimizer<T>::passes() const;                                   \
  template double Optimizer<T>::eta(double) const;                                            \
  template void Optimizer<T>::direction(std::span<const MatrixView<T>>);                      \
  template StepInput Optimizer<T>::rule_input() const;                                        \
  template double Optimizer<T>::rule_eta() const;                                             \
  template void Optimizer<T>::abandon();                                                      \
  template void Optimizer<T>::revert();                                                       \
  template std::vector<NamedBuffer<T>> Optimizer<T>::state();                                 \
  template void Optimizer<T>::load_state(std::span<const NamedBuffer<const T>>, std::int64_t, \
                                         std::span<const double>);                            \
  template void Optimizer<T>::set_steps_taken(std::int64_t);                                  \
  template void Optimizer<T>::set_lr(Schedule);                                               \
  template void Optimizer<T>::set_alpha(Schedule);                                            \
  template void Optimizer<T>::set_rule(StepRule);                                             \
  template void Optimizer<T>::set_rho(double);                                                \
  template double Optimizer<T>::scale_into_balls(std::span<const Parameter<T>>);
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball
