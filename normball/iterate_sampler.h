// The output of Algorithms 1-4: x̄ⁿ, uniform over {x¹, ..., xⁿ}, without storing the trajectory.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "normball/matrix_view.h"
#include "normball/random.h"

namespace normball {

// Reservoir sampling: whether an iterate that `before` others came before replaces the kept one,
// which is so with probability 1 / (before + 1). The same draws as those of one generator after
// another, so that nothing but the two numbers need be stored.
inline bool replaces_kept(std::uint64_t seed, std::uint64_t before) {
  Random random(seed);
  random.skip(before);
  return random.below(before + 1) == 0;
}

template <class T>
class IterateSampler {
 public:
  explicit IterateSampler(std::uint64_t seed = 0) : seed_(seed) {}

  // Offers the current iterate; returns true if it was kept.
  bool offer(std::span<const MatrixView<T>> iterate) {
    if (!replaces_kept(seed_, offered_++)) return false;
    kept_.resize(iterate.size());
    for (size_t l = 0; l < iterate.size(); ++l) {
      kept_[l].resize(static_cast<size_t>(iterate[l].size()));
      T* to = kept_[l].data();
      for (Index i = 0; i < iterate[l].rows; ++i) {
        to = std::copy_n(iterate[l].row(i), iterate[l].cols, to);
      }
    }
    kept_index_ = offered_;
    return true;
  }

  // The kept iterate's layers, row-major and dense; empty before the first offer.
  const std::vector<std::vector<T>>& sample() const { return kept_; }
  std::uint64_t sample_index() const { return kept_index_; }  // from 1

 private:
  std::uint64_t seed_;
  std::uint64_t offered_ = 0;
  std::uint64_t kept_index_ = 0;
  std::vector<std::vector<T>> kept_;
};

}  // namespace normball
