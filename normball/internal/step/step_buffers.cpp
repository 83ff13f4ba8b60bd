#include "normball/internal/step/step_buffers.h"

#include "normball/base/error.h"
#include "normball/base/parallel.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/internal/step/momentum.h"

namespace normball::detail {

void validate(const Execution& execution) {
  if (execution.light && execution.overwrite_gradients) {
    throw_invalid("Optimizer", "light keeps the average in the gradient buffer, ",
                  "which overwrite_gradients would destroy: choose one");
  }
  if (execution.light && execution.external_momentum) {
    throw_invalid("Optimizer", "light keeps the average in the gradient buffer, ",
                  "external_momentum in a buffer of its own: choose one");
  }
  if (execution.threads < 0 || execution.threads > max_threads) {
    throw_invalid("Optimizer", "threads must be from 0 (OpenMP's default) to ", max_threads,
                  ", got ", execution.threads);
  }
}

template <class T>
StepBuffers<T>::StepBuffers(const Execution& execution, const Shape& shape,
                            const GeometryRules& rules, const Holding& held)
    : light_(execution.light),
      external_(execution.external_momentum),
      stored_(rules.stored),
      some_overwrite_(execution.overwrite_gradients),
      direction_in_gradient_(execution.overwrite_gradients && rules.may_overwrite_gradient),
      shape_(shape),
      held_(held) {
  if (owns_average()) own_average_.resize(static_cast<size_t>(held_.rows.count() * shape.cols));
  if (stored_ && !direction_in_gradient_) {
    own_direction_.resize(static_cast<size_t>(shape.size()));
  }
}

template <class T>
void StepBuffers<T>::bind(const Parameter<T>& parameter, double alpha, double next_alpha) {
  parameter_ = parameter;
  alpha_ = alpha;
  next_alpha_ = next_alpha;
}

template <class T>
MatrixView<T> StepBuffers<T>::average() {
  if (held_.elsewhere()) return {};
  if (light_) return parameter_.gradient;
  if (external_) return parameter_.momentum;
  return {own_average_.data(), held_.rows.count(), shape_.cols};
}

template <class T>
MatrixView<T> StepBuffers<T>::direction() {
  if (!stored_) return {};
  if (direction_in_gradient_) return parameter_.gradient;
  return {own_direction_.data(), shape_.rows, shape_.cols};
}

template <class T>
ConstMatrixView<T> StepBuffers<T>::next_average(Index begin, Index end, Workspace& workspace) {
  const auto d = average(begin, end);
  if (light_ || early_) return d;
  const auto next = workspace.matrix<T>(d.rows, d.cols);
  next_momentum<T>(d, parameter_.gradient.row_range(begin, end), alpha_, next);
  return next;
}

template <class T>
void StepBuffers<T>::take_gradient(Index begin, Index end) {
  if (light_) return;
  const auto d = average(begin, end);
  next_momentum<T>(d, parameter_.gradient.row_range(begin, end), alpha_, d);
}

template <class T>
void StepBuffers<T>::scale_for_next_gradient(Index begin, Index end) {
  if (!light_) return;
  const auto d = average(begin, end);
  const double carry = light_carry(alpha_, next_alpha_);
  for_each_run(d, [&](Index at, Index n) { kernels<T>().scale(d.data + at, carry, n); });
}

template <class T>
void StepBuffers<T>::require_scaled_for(std::string_view where, std::string_view layer,
                                        double alpha) const {
  if (scaled_for_ == 0 || alpha == scaled_for_) return;
  throw_invalid(where, "alpha is ", alpha, ", but light has scaled the average of '", layer,
                "' for ", scaled_for_,
                " already: give alpha as a schedule from the start, without leaving layers out ",
                "while it changes, or do without light");
}

template class StepBuffers<float>;
template class StepBuffers<double>;

}  // namespace normball::detail
