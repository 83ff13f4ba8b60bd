#include "normball/line_search.h"

#include <algorithm>
#include <cmath>

#include "normball/base/error.h"

namespace normball {

void require_searchable(std::string_view where, const StepRule& rule) {
  if (memory_size(rule) == 0) return;
  throw_invalid(where, "the rule '", rule, "' finds its stepsize itself; a line search goes with ",
                "rules without a memory, such as 'clipped' and 'normalized'");
}

template <class T>
LineSearch<T>::LineSearch(Optimizer<T>& optimizer, SearchRule rule)
    : optimizer_(optimizer), rule_(rule), memory_(memory_size(rule)) {
  validate(rule);
  require_searchable("LineSearch", optimizer.method().rule);
  const Execution& execution = optimizer.execution();
  if (!execution.undoable || execution.overwrite_gradients || execution.light) {
    throw_invalid("LineSearch", "a trial may fail after the directions are known, and then needs ",
                  "averages and gradients as they were: construct the optimizer with ",
                  "Execution::undoable, and without overwrite_gradients and light");
  }
  Index size = 0;
  for (const auto& layer : optimizer.layers()) size += layer.shape.size();
  start_.resize(static_cast<size_t>(size));
  direction_.resize(static_cast<size_t>(size));
  T* at = direction_.data();
  for (const auto& layer : optimizer.layers()) {
    directions_.push_back({at, layer.shape.rows, layer.shape.cols});
    at += layer.shape.size();
  }
}

template <class T>
void LineSearch<T>::load_memory(std::span<const double> memory) {
  require_search_memory("LineSearch::load_memory", rule_, memory);
  memory_.assign(memory.begin(), memory.end());
}

template <class T>
void LineSearch<T>::move(std::span<const Parameter<T>> parameters, double step) {
  const T* x = start_.data();
  for (size_t l = 0; l < parameters.size(); ++l) {
    const auto weight = parameters[l].weight, v = directions_[l];
    for (Index i = 0; i < weight.rows; ++i) {
      for (Index j = 0; j < weight.cols; ++j, ++x) {
        weight(i, j) = step == 0 ? *x : static_cast<T>(*x - step * v(i, j));
      }
    }
  }
}

// Keeps x and v.
template <class T>
SearchInput LineSearch<T>::begin(std::span<const Parameter<T>> parameters, double loss) {
  const StepReport& prepared = optimizer_.report();
  optimizer_.direction(directions_);
  SearchInput input{.loss = loss, .own = prepared.gamma * optimizer_.eta(prepared.pairing)};
  T* x = start_.data();
  double factor = 0;
  for (size_t l = 0; l < parameters.size(); ++l) {
    const auto& [weight, gradient, has_gradient, momentum, lr_factor, start] = parameters[l];
    for (Index i = 0; i < weight.rows; ++i) x = std::copy_n(weight.row(i), weight.cols, x);
    if (!has_gradient) continue;
    factor = std::max(factor, lr_factor);
    for (Index i = 0; i < weight.rows; ++i) {
      for (Index j = 0; j < weight.cols; ++j) {
        input.slope += static_cast<double>(gradient(i, j)) * directions_[l](i, j);
      }
    }
  }
  if (optimizer_.method().constrained) input.longest = 1 / factor;
  return input;
}

template <class T>
const SearchReport& LineSearch<T>::step(std::span<const Parameter<T>> parameters, double loss,
                                        const std::function<double()>& evaluate) {
  if (!std::isfinite(loss)) {
    throw NonFiniteError(error_message("LineSearch::step", "the loss is ", loss));
  }
  report_ = {.loss = loss};
  if (optimizer_.prepare(parameters).skipped) return report_;
  bool moved = false;
  try {
    const SearchInput input = begin(parameters, loss);
    report_ = search_along(rule_, input, memory_, [&](double t) {
      moved = true;
      move(parameters, t);
      return evaluate();
    });
  } catch (...) {
    if (moved) move(parameters, 0);
    optimizer_.abandon();
    throw;
  }
  if (moved) move(parameters, 0);
  const double gamma = optimizer_.report().gamma;
  optimizer_.apply(report_.step > 0 ? report_.step / gamma : 0);
  return report_;
}

template class LineSearch<float>;
template class LineSearch<double>;

}  // namespace normball
