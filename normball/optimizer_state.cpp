// What outlasts a step: the state and the method.
#include <algorithm>
#include <utility>

#include "normball/error.h"
#include "normball/kernels.h"
#include "normball/optimizer.h"

namespace normball {
namespace {

void require_steps(std::string_view where, std::int64_t steps) {
  if (steps < 0 || steps > max_steps) {
    detail::invalid(where, "steps_taken must be from 0 to ", max_steps, ", got ", steps);
  }
}

}  // namespace

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
  prepared_ = false;
  settled_ = true;
  for (auto& slot : slots_) slot.scaled_for = 0;
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
    for (size_t l = 0; l < slots_.size(); ++l) {
      require_scaled_for("Optimizer::set_alpha", l, alpha.at(step_));
    }
  });
}

template <class T>
void Optimizer<T>::set_rule(StepRule rule) {
  change([&](Method& method) { method.rule = rule; });
}

template <class T>
void Optimizer<T>::set_rho(double rho) {
  change([&](Method& method) { normball::set_rho(method.rule, rho); });
}

#define NORMBALL_INSTANTIATE(T)                                                                \
  template std::vector<NamedBuffer<T>> Optimizer<T>::state();                                  \
  template void Optimizer<T>::load_state(std::span<const NamedBuffer<const T>>, std::int64_t); \
  template void Optimizer<T>::set_steps_taken(std::int64_t);                                   \
  template void Optimizer<T>::set_lr(Schedule);                                                \
  template void Optimizer<T>::set_alpha(Schedule);                                             \
  template void Optimizer<T>::set_rule(StepRule);                                              \
  template void Optimizer<T>::set_rho(double);
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball
