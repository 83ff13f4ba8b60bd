// What single spectral LMOs take, by shape: those that were measured, and others in proportion to
// their work.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "normball/polar.h"
#include "normball/product_norm.h"

namespace normball::benchmarks {

class LmoTimes {
 public:
  void add(const Shape& shape, double seconds);
  bool empty() const { return known_.empty(); }
  // That of the shape or of its transpose; else of the known one with the work n² m nearest to it,
  // in proportion. Throws std::invalid_argument where none is known.
  double seconds(const Shape& shape) const;
  // Of each layer; 0 where the norm is not spectral.
  std::vector<double> seconds(std::span<const Layer> layers) const;

 private:
  std::vector<std::pair<Shape, double>> known_;
};

// The shapes of the layers' spectral norms, each once, whose smaller side is at most this; the
// smallest alone where all are larger.
std::vector<Shape> shapes_to_measure(std::span<const Layer> layers, Index largest_side);

// Measures them, best of so many; with one thread the processor time.
LmoTimes measure_lmos(std::span<const Shape> shapes, const PolarSolver& solver, int threads,
                      int rounds);

}  // namespace normball::benchmarks
