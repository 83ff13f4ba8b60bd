// A stochastic method on a problem, with the parameters that its theorem takes for a horizon.
#pragma once

#include <memory>

#include "lab/bounds.h"
#include "lab/run.h"
#include "lab/statement.h"

namespace normball::lab {

// Finite sums are sampled, the others get Gaussian noise: a share of the gradient's length at x.
std::unique_ptr<Oracle> make_oracle(const Problem& problem, const Point& x, double share = 0.5);

struct Experiment {
  const Problem& problem;
  std::unique_ptr<Oracle> oracle;
  Point start;
  Method method;
  Horizon horizon;
  double alpha = 1;
  double lipschitz = 0;  // of the constrained method
  double beta = 0;       // 0: unconstrained
  std::string setting = {};

  double quantity(const Run& run) const { return beta > 0 ? run.wolfe_gap(beta) : run.dual_norm(); }
};

// GGNC: α = 1/√n, γ = 1/(√n L0), ρ = L0/(2 n^{1/4} L1).
Experiment ggnc_experiment(const Problem& problem, const Smoothness& s, const Point& start, int n,
                           const Settings& settings);
// S³CG from a point on the sphere: α = 1/√n, γ = 1/(L√n), ρ = n^{-1/4}.
Experiment short_step_experiment(const Problem& problem, ShortStep::Variant variant, int n,
                                 const Settings& settings);

}  // namespace normball::lab
