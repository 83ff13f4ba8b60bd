// A backtracking line search around the two passes of an optimizer: the step is as long as the loss
// says, whatever γ the method has.
//
//   t ← m γ η               the rule's own step, times a factor that lasts from step to step
//   while f(x − t v) > f(x) − c t s:  t ← shrink · t
//   x ← x − t v;  m ← grow · t / (γ η)
#pragma once

#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "normball/optimizer.h"

namespace normball {

struct Backtracking {
  double decrease = 0.5;  // c, in (0, 1)
  double shrink = 0.5;    // in (0, 1)
  double grow = 2;        // at least 1: how much longer the next step is tried
  int evaluations = 20;   // of the loss along a direction, at most
  friend bool operator==(const Backtracking&, const Backtracking&) = default;
};

// Throws std::invalid_argument for numbers out of their ranges.
void validate(const Backtracking& search);

// "backtracking", "backtracking(decrease=0.1, shrink=0.8, grow=1.5, evaluations=5)"
Backtracking parse_backtracking(std::string_view text);
std::string to_string(const Backtracking& search);
std::ostream& operator<<(std::ostream& out, const Backtracking& search);

struct SearchReport {
  double step = 0;        // t, 0 where no trial was accepted
  double loss = 0;        // f after the step
  int evaluations = 0;    // of the loss, in this step
  bool accepted = false;  // false: the weights stay, and the next step tries shorter ones
};

template <class T>
class LineSearch {
 public:
  // The optimizer must outlive the search, be constructed with Execution::undoable, have one
  // process, and a rule without a memory (its steps are not the search's).
  LineSearch(Optimizer<T>& optimizer, Backtracking search = {});

  // One step. `loss` is f at the weights, where the gradients were computed, and evaluate() the
  // same function of the weights as they are then: the same batch, nothing random. It is compared
  // with `loss` at the first step, and where no trial is accepted. Throws, with weights and state
  // as before, where they differ, where a trial's loss is NaN, and what evaluate() throws.
  const SearchReport& step(std::span<const Parameter<T>> parameters, double loss,
                           const std::function<double()>& evaluate);

  // m: with the optimizer's state all that a resumed run needs.
  double factor() const { return factor_; }
  void set_factor(double factor);
  const Backtracking& search() const { return search_; }

 private:
  void find_step(std::span<const Parameter<T>> parameters, double loss,
                 const std::function<double()>& evaluate);
  void move(std::span<const Parameter<T>> parameters, double step);
  void require_same(double loss, const std::function<double()>& evaluate);

  Optimizer<T>& optimizer_;
  Backtracking search_;
  double factor_ = 1;
  bool compared_ = false;
  SearchReport report_;
  std::vector<T> start_, direction_;  // x and v, one layer after the other
  std::vector<MatrixView<T>> directions_;
};

}  // namespace normball
