// What the processes of a step tell each other: that all are at the same step before anything is
// changed, what stops one of them, the layers' sums, and the signs of divided layers. Internal.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "normball/internal/step/holding.h"

namespace normball::detail {

// What must be the same in all processes, or they would wait for each other's directions.
struct StepFacts {
  std::int64_t step = 0;
  double lr = 0, alpha = 0;
  double loss = 0;           // 0 where the rule needs none
  std::uint64_t layers = 0;  // a digest of which take part
};

// What stops a step; nothing where the text is empty.
struct StepProblem {
  std::string text = {};
  std::string layer = {};  // that is not finite, if that is the problem
  bool nonfinite = false;
};

// A layer's part of s, or a part of that.
struct LayerSum {
  double dual = 0, weight_pairing = 0;
};

template <class T>
class SharedStep {
 public:
  SharedStep(std::shared_ptr<Peers<T>> peers, std::span<const Layer> layers);

  const Holding& held(size_t layer) const { return layers_[layer].held; }
  bool sent(size_t layer) const { return layers_[layer].owner >= 0; }
  Peers<T>& peers() { return *peers_; }

  // From a row on, where a part begins: the codes that this process sends, and that it has got.
  std::byte* own_codes(size_t layer, Index row);
  const std::byte* codes(size_t layer, Index row) const;

  // Each returns the same in all processes: the problem of the first that has one, with its rank in
  // front. The text of a problem elsewhere reaches all.
  StepProblem agree(const StepFacts& facts, const StepProblem& own);
  // sums <- those of the layers' owners (of rank 0 where all have them), one for each part of a
  // divided layer. `taken`: whether averages have taken their gradients in, here and then anywhere.
  StepProblem exchange(std::span<LayerSum> sums, const StepProblem& own, bool& taken);

 private:
  StepProblem first_problem(const StepProblem& own, std::span<const unsigned char> flags);

  struct SharedLayer {
    Shape shape;
    int owner;
    Holding held = {};
    Index codes = 0;  // where they begin in every process's message
  };
  int process_with(const Shape& shape, Index row) const;

  std::shared_ptr<Peers<T>> peers_;
  std::vector<SharedLayer> layers_;
  std::vector<int> summers_;          // which process has each of the sums
  std::vector<std::byte> own_, all_;  // of messages
};

}  // namespace normball::detail
