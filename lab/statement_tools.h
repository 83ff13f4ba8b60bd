// What the deterministic statements share.
#pragma once

#include <string>
#include <vector>

#include "lab/run.h"
#include "lab/statement.h"

namespace normball::lab {

constexpr double rounding = 1e-13;  // of a function value, relative

inline std::vector<int> horizons(const Settings& settings) {
  if (settings.quick) return {1, 10, 100};
  return {1, 10, 100, 1000, 3000};
}

// A fixed point of that norm.
inline Point on_sphere(const Space& space, double radius) {
  Random random(7);
  Point x = space.sphere(random);
  for (double& v : x) v *= radius;
  return x;
}

inline double start_delta(const Problem& problem) {
  return problem.value(problem.start()) - problem.infimum();
}

inline double start_slope(const Problem& problem) {
  Point g(problem.space().size());
  problem.gradient(problem.start(), g);
  return problem.space().dual_norm(g);
}

// Offers the mean of a quantity over the first n steps at every horizon, against bound(n).
template <class Quantity, class Bound>
void check_means(Run& run, const std::vector<int>& at, const Quantity& quantity, const Bound& bound,
                 const std::string& setting, Tightest& tightest) {
  double sum = 0;
  size_t next = 0;
  for (int n = 1; n <= at.back(); ++n) {
    run.step();
    sum += quantity(run);
    if (n != at[next]) continue;
    tightest.offer(setting + " n=" + std::to_string(n), bound(n), sum / n);
    ++next;
  }
  tightest.add_steps(at.back());
}

}  // namespace normball::lab
