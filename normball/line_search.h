// A line search around the two passes of an optimizer: the step is as long as the loss says,
// whatever γ the method has.
//
//   prepare(): v, and σ = <g, v> with the gradient g of this step, which is s where alpha is 1
//   t ← the rule of the search tries steps      normball/search_rule.h
//   W_l ← W_l − t v_l
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "normball/optimizer.h"
#include "normball/search_rule.h"

namespace normball {

// Throws unless the method's rule goes with a line search: one without a memory.
void require_searchable(std::string_view where, const StepRule& rule);

template <class T>
class LineSearch {
 public:
  // The optimizer must outlive the search and be constructed with Execution::undoable, without
  // overwrite_gradients and light: throws otherwise.
  LineSearch(Optimizer<T>& optimizer, SearchRule rule = Backtracking{});

  // One step. `loss` is f at the weights, where the gradients were computed, and evaluate() the
  // same function of the weights as they are then: the same batch, nothing random. Throws what
  // search_along() throws, with weights and state as before.
  const SearchReport& step(std::span<const Parameter<T>> parameters, double loss,
                           const std::function<double()>& evaluate);

  // With the optimizer's state all that a resumed run needs.
  std::span<const double> memory() const { return memory_; }
  void load_memory(std::span<const double> memory);
  const SearchRule& rule() const { return rule_; }

 private:
  SearchInput begin(std::span<const Parameter<T>> parameters, double loss);
  void move(std::span<const Parameter<T>> parameters, double step);

  Optimizer<T>& optimizer_;
  SearchRule rule_;
  std::vector<double> memory_;
  SearchReport report_;
  std::vector<T> start_, direction_;  // x and v, one layer after the other
  std::vector<MatrixView<T>> directions_;
};

}  // namespace normball
