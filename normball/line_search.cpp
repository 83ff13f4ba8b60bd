#include "normball/line_search.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball {

void validate(const Backtracking& search) {
  const auto inside = [](double value) { return value > 0 && value < 1; };
  if (!inside(search.decrease) || !inside(search.shrink)) {
    throw_invalid("Backtracking", "decrease and shrink must be in (0, 1), got ", search.decrease,
                  " and ", search.shrink);
  }
  if (!(std::isfinite(search.grow) && search.grow >= 1)) {
    throw_invalid("Backtracking", "grow must be finite and at least 1, got ", search.grow);
  }
  if (search.evaluations < 1) {
    throw_invalid("Backtracking", "evaluations must be at least 1, got ", search.evaluations);
  }
}

Backtracking parse_backtracking(std::string_view text) {
  auto call = TextCall::parse("parse_backtracking", text);
  if (call.name != "backtracking") {
    constexpr std::string_view known = "backtracking";
    throw_invalid("parse_backtracking", unknown_name("line search", call.name, {&known, 1}));
  }
  constexpr Backtracking usual;
  Backtracking result;
  result.decrease = call.take_number("decrease", usual.decrease);
  result.shrink = call.take_number("shrink", usual.shrink);
  result.grow = call.take_number("grow", usual.grow);
  const double evaluations = call.take_number("evaluations", usual.evaluations);
  call.require_all_taken();
  if (!(evaluations >= 1 && evaluations <= 1e6 && evaluations == std::floor(evaluations))) {
    throw_invalid("parse_backtracking",
                  "evaluations must be a whole number from 1 to 1000000, got ", evaluations);
  }
  result.evaluations = static_cast<int>(evaluations);
  validate(result);
  return result;
}

std::string to_string(const Backtracking& search) {
  constexpr Backtracking usual;
  const auto option = [](const char* key, double value, double standard) {
    return value == standard ? "" : std::string(key) + "=" + number_text(value);
  };
  return call_text("backtracking", {option("decrease", search.decrease, usual.decrease),
                                    option("shrink", search.shrink, usual.shrink),
                                    option("grow", search.grow, usual.grow),
                                    option("evaluations", search.evaluations, usual.evaluations)});
}

std::ostream& operator<<(std::ostream& out, const Backtracking& search) {
  return out << to_string(search);
}

template <class T>
LineSearch<T>::LineSearch(Optimizer<T>& optimizer, Backtracking search)
    : optimizer_(optimizer), search_(search) {
  validate(search);
  const StepRule& rule = optimizer.method().rule;
  if (memory_size(rule) > 0) {
    throw_invalid("LineSearch", "the rule '", rule, "' finds its stepsize itself; a search goes ",
                  "with rules without a memory, such as 'clipped' and 'steepest'");
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
void LineSearch<T>::set_factor(double factor) {
  require_positive("LineSearch::set_factor", "factor", factor);
  factor_ = factor;
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

template <class T>
void LineSearch<T>::require_same(double loss, const std::function<double()>& evaluate) {
  const double again = evaluate();
  ++report_.evaluations;
  if (again == loss) return;
  throw_invalid("LineSearch::step", "the loss is ", number_text(loss), ", but evaluate() gives ",
                number_text(again), " at the same weights: it must be the same function, on the ",
                "same batch, without dropout or other randomness; nothing was changed");
}

template <class T>
void LineSearch<T>::find_step(std::span<const Parameter<T>> parameters, double loss,
                              const std::function<double()>& evaluate) {
  const StepReport& prepared = optimizer_.prepare(parameters);
  if (prepared.skipped || !(prepared.slope > 0)) return;
  optimizer_.direction(directions_);
  T* x = start_.data();
  double longest = 0;
  for (const auto& parameter : parameters) {
    for (Index i = 0; i < parameter.weight.rows; ++i) {
      x = std::copy_n(parameter.weight.row(i), parameter.weight.cols, x);
    }
    if (parameter.has_gradient) longest = std::max(longest, parameter.lr_factor);
  }
  if (!compared_) require_same(loss, evaluate);
  compared_ = true;
  const double own = prepared.gamma * optimizer_.eta(prepared.pairing);
  double t = factor_ * own;
  if (optimizer_.method().constrained) t = std::min(t, 1 / longest);
  for (int trial = 0; trial < search_.evaluations && t > 0; ++trial, t *= search_.shrink) {
    move(parameters, t);
    const double found = evaluate();
    ++report_.evaluations;
    if (std::isnan(found)) {
      throw NonFiniteError(error_message("LineSearch::step",
                                         "the loss is NaN after a trial step of ", t,
                                         "; nothing was changed"));
    }
    if (found <= loss - search_.decrease * t * prepared.slope) {
      report_ = {t, found, report_.evaluations, true};
      break;
    }
  }
  move(parameters, 0);
  if (!report_.accepted) require_same(loss, evaluate);
  factor_ = report_.accepted ? search_.grow * t / own : t / own;
}

template <class T>
const SearchReport& LineSearch<T>::step(std::span<const Parameter<T>> parameters, double loss,
                                        const std::function<double()>& evaluate) {
  if (!std::isfinite(loss)) {
    throw NonFiniteError(error_message("LineSearch::step", "the loss is ", loss));
  }
  report_ = {.loss = loss};
  const double factor = factor_;
  bool saved = false;
  try {
    find_step(parameters, loss, [&] {
      saved = true;
      return evaluate();
    });
  } catch (...) {
    factor_ = factor;
    if (saved) move(parameters, 0);
    optimizer_.abandon();
    throw;
  }
  if (optimizer_.prepared()) optimizer_.apply(report_.step / optimizer_.report().gamma);
  return report_;
}

template class LineSearch<float>;
template class LineSearch<double>;

}  // namespace normball
