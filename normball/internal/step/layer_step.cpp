#include "normball/internal/step/layer_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <typeinfo>

#include "normball/base/error.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/internal/step/sign_codes.h"
#include "normball/internal/step/work.h"

namespace normball::detail {

template <class T>
LayerStep<T>::LayerStep(const Layer& layer, const Execution& execution, const Holding& held)
    : name_(layer.name),
      shape_(layer.shape),
      norm_(resolve(layer.norm, layer.shape)),
      rules_(detail::rules(norm_.geometry)),
      radius_(layer.radius),
      report_polar_error_(execution.report_polar_errors && norm_.geometry == Geometry::Operator),
      held_(held),
      buffers_(execution, layer.shape, rules_, held),
      lengths_(static_cast<size_t>(rules_.length_count(layer.shape))),
      state_(static_cast<size_t>(rules_.state_size(norm_, layer.shape))),
      next_state_(state_.size()) {}

template <class T>
void LayerStep<T>::add_part(Index begin, Index end) {
  Part& part = parts_.emplace_back(Part{.begin = begin, .end = end});
  if (rules_.lengths_are_partial()) part.lengths.resize(lengths_.size());
}

template <class T>
void LayerStep<T>::connect(SharedStep<T>& shared, size_t layer) {
  for (auto& part : parts_) {
    if (held_.has(part.begin)) part.own_codes = shared.own_codes(layer, part.begin);
    part.codes = shared.codes(layer, part.begin);
  }
}

template <class T>
void LayerStep<T>::bind(const Parameter<T>& parameter, bool constrained, double alpha,
                        double next_alpha) {
  parameter_ = parameter;
  constrained_ = constrained;
  buffers_.bind(parameter, alpha, next_alpha);
  report_ = {};
  for (auto& part : parts_) {
    part.finite = true;
    part.taken = false;
  }
}

// Runs body; a standard error gets the layer's name in front. One of the user's own type, as
// Python's are, stays what it is.
template <class T>
template <class Body>
void LayerStep<T>::naming(const Body& body) const {
  const auto named = [&](const std::exception& error) {
    return error_message("Optimizer", "layer '", name_, "': ", error.what());
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

// With a part of its own: where its lengths go before add_up_parts() puts them together.
template <class T>
Direction<T> LayerStep<T>::direction(Part* own, Index begin) {
  Direction<T> result{.lengths = lengths_.data(), .u = buffers_.direction()};
  if (own != nullptr && !own->lengths.empty()) result.lengths = own->lengths.data();
  if (rules_.lengths == Lengths::Rows) result.lengths += begin;
  return result;
}

template <class T>
void LayerStep<T>::look_ahead(size_t index) {
  if (!has(index)) return;  // its owner does
  Part& part = parts_[index];
  const auto finite = [&](MatrixView<T> view) {
    return all_finite(view.row_range(part.begin, part.end));
  };
  part.finite = finite(parameter_.gradient);
  if (!part.finite || !buffers_.must_look_ahead()) return;  // find_direction() tells the rest
  if (constrained_) part.finite = finite(parameter_.weight);
  if (part.finite && buffers_.writes_momentum() && buffers_.overwrites()) {
    part.finite = finite(parameter_.momentum);
  }
}

template <class T>
void LayerStep<T>::take_gradient(size_t index) {
  Part& part = parts_[index];
  if (part.taken || !has(index)) return;
  buffers_.take_gradient(part.begin, part.end);
  part.taken = true;
}

template <class T>
ConstMatrixView<T> LayerStep<T>::average(const Share& share) {
  const Part& part = parts_[share.part];
  if (buffers_.early()) take_gradient(share.part);
  return buffers_.next_average(part.begin, part.end, share.workspace);
}

template <class T>
void LayerStep<T>::find_direction(ConstMatrixView<T> d, const Share& share) {
  Part& part = parts_[share.part];
  if (buffers_.stored()) part.finite = all_finite(d);
  if (!part.finite) return;  // or a solver would get it; sums may have it
  const auto u = direction(&part, part.begin);
  std::ranges::copy(state_, next_state_.begin());
  naming([&] {
    part.dual =
        rules_.in<T>().find(norm_, d, u, {share.workspace, next_state_.data(), share.threads});
  });
  if (constrained_) {
    part.weight_pairing = dot<T>(d, parameter_.weight.row_range(part.begin, part.end));
  }
  part.finite = std::isfinite(part.dual + part.weight_pairing);
  if (part.own_codes != nullptr) write_sign_codes<T>(d, part.own_codes);
  if (report_polar_error_) report_.polar_error = polar_error<T>(d, u.u, share.workspace);
}

template <class T>
void LayerStep<T>::add_up_parts() {
  dual_ = weight_pairing_ = 0;
  const bool partial = rules_.lengths_are_partial();
  if (partial) std::ranges::fill(lengths_, 0.0);
  if (takes_part()) {
    for (const auto& part : parts_) {
      dual_ += part.dual;
      weight_pairing_ += part.weight_pairing;
      for (size_t j = 0; j < part.lengths.size(); ++j) {
        lengths_[j] = combine_l2(lengths_[j], part.lengths[j]);
      }
    }
  }
  if (partial) dual_ = std::accumulate(lengths_.begin(), lengths_.end(), 0.0);
  dual_ *= buffers_.scale() * norm_.scale * radius_;
  weight_pairing_ *= buffers_.scale();
}

template <class T>
void LayerStep<T>::append_sums(std::vector<LayerSum>& sums) const {
  if (!held_.divided()) {
    sums.push_back(elsewhere() ? LayerSum{} : LayerSum{dual_, weight_pairing_});
    return;
  }
  for (const auto& part : parts_) sums.push_back({part.dual, part.weight_pairing});
}

template <class T>
std::span<const LayerSum> LayerStep<T>::take_sums(std::span<const LayerSum> sums) {
  if (!held_.divided()) {
    dual_ = sums[0].dual;
    weight_pairing_ = sums[0].weight_pairing;
    return sums.subspan(1);
  }
  for (size_t p = 0; p < parts_.size(); ++p) {
    parts_[p].dual = sums[p].dual;
    parts_[p].weight_pairing = sums[p].weight_pairing;
  }
  add_up_parts();
  return sums.subspan(parts_.size());
}

// W ← W − γη v, which is (1 − γη) W − γη r u where constrained.
template <class T>
void LayerStep<T>::move(double step, const Share& share) {
  const Part& part = parts_[share.part];
  take_gradient(share.part);
  if (!elsewhere()) std::ranges::copy(next_state_, state_.begin());
  if (step != 0) {
    const Workspace::Frame frame(share.workspace);
    ConstMatrixView<T> d;
    if (has(share.part)) {
      d = buffers_.average(part.begin, part.end);
    } else if (held_.divided()) {
      const auto signs = share.workspace.matrix<T>(part.end - part.begin, shape_.cols);
      read_sign_codes<T>(part.codes, signs);
      d = signs;
    }
    rules_.in<T>().add(d, direction(nullptr, part.begin), constrained_ ? 1 - step : 1,
                       -step * unit(), parameter_.weight.row_range(part.begin, part.end),
                       share.workspace);
  }
  if (has(share.part)) buffers_.scale_for_next_gradient(part.begin, part.end);
}

template <class T>
bool LayerStep<T>::finite() const {
  return std::ranges::all_of(parts_, &Part::finite);
}

template <class T>
const char* LayerStep<T>::nonfinite_input() {
  if (!all_finite(parameter_.gradient.row_range(held_.rows.begin, held_.rows.end))) {
    return "gradient";
  }
  if (!all_finite(buffers_.average())) return "momentum";
  return all_finite(parameter_.weight) ? nullptr : "weight";
}

template <class T>
double LayerStep<T>::weight_norm(ConstMatrixView<T> weight, Workspace& workspace) const {
  double size = 0;
  naming([&] { size = norm_of<T>(norm_, weight, workspace) / radius_; });
  return size;
}

// What d the direction of the whole layer is a function of: where it is sign(d), that itself.
template <class T>
ConstMatrixView<T> LayerStep<T>::whole_average(Workspace& workspace) {
  if (buffers_.stored()) return buffers_.average();
  if (!held_.divided()) return buffers_.next_average(0, shape_.rows, workspace);
  const auto signs = workspace.matrix<T>(shape_.rows, shape_.cols);
  for (const auto& part : parts_) {
    read_sign_codes<T>(part.codes, signs.row_range(part.begin, part.end));
  }
  return signs;
}

// v is formed in scratch memory, here alone.
template <class T>
double LayerStep<T>::direction_norm(Workspace& workspace) {
  if (!takes_part() || shape_.size() == 0) return 0;
  const Workspace::Frame frame(workspace);
  const auto v = workspace.matrix<T>(shape_.rows, shape_.cols);
  if (constrained_) copy<T>(parameter_.weight, v);
  const auto d = whole_average(workspace);
  rules_.in<T>().add(d, direction(nullptr, 0), constrained_ ? 1 : 0, unit(), v, workspace);
  return weight_norm(v, workspace);
}

template <class T>
void LayerStep<T>::write_direction(MatrixView<T> out, Workspace& workspace) {
  if (shape_.size() == 0) return;
  for_each_run(out, [&](Index at, Index n) { std::fill_n(out.data + at, n, T(0)); });
  if (!takes_part()) return;
  const Workspace::Frame frame(workspace);
  const double factor = parameter_.lr_factor;
  if (constrained_) copy<T>(parameter_.weight, out);
  const auto d = whole_average(workspace);
  rules_.in<T>().add(d, direction(nullptr, 0), constrained_ ? factor : 0, factor * unit(), out,
                     workspace);
}

template <class T>
void LayerStep<T>::make_start() {
  start_.resize(static_cast<size_t>(shape_.size()));
}

template <class T>
void LayerStep<T>::take_start(ConstMatrixView<T> weight) {
  if (!start_.empty()) copy<T>(weight, start());
}

template <class T>
MatrixView<T> LayerStep<T>::start() {
  if (start_.empty()) return {};
  return {start_.data(), shape_.rows, shape_.cols};
}

template <class T>
double LayerStep<T>::distance(Workspace& workspace) {
  if (shape_.size() == 0) return 0;
  const ConstMatrixView<T> from = start_.empty() ? parameter_.start : ConstMatrixView<T>(start());
  const Workspace::Frame frame(workspace);
  const auto moved = workspace.matrix<T>(shape_.rows, shape_.cols);
  for (Index i = 0; i < shape_.rows; ++i) {
    const T *const w = parameter_.weight.row(i), *const w0 = from.row(i);
    for (Index j = 0; j < shape_.cols; ++j) moved(i, j) = w[j] - w0[j];
  }
  return weight_norm(moved, workspace);
}

template <class T>
std::size_t LayerStep<T>::move_scratch() const {
  if (shape_.size() == 0) return 0;
  const Index rows = held_.divided() ? rows_in_a_part(shape_) : 0;
  const auto signs = static_cast<std::size_t>(rows * shape_.cols) * sizeof(T);
  return rules_.add_scratch(shape_) + Workspace::rounded(signs);
}

template <class T>
MatrixView<T> LayerStep<T>::solver_state() {
  if (state_.empty()) return {};
  const Index longer = std::max(shape_.rows, shape_.cols);
  return {state_.data(), static_cast<Index>(state_.size()) / longer, longer};
}

template class LayerStep<float>;
template class LayerStep<double>;

}  // namespace normball::detail
