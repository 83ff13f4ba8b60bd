#include "lab/oracle.h"

#include <algorithm>
#include <cmath>

#include "normball/base/error.h"

namespace normball::lab {

GaussianOracle::GaussianOracle(size_t size, double sigma)
    : sigma_(sigma), each_(sigma / std::sqrt(static_cast<double>(size))) {
  require_positive("GaussianOracle", "sigma", sigma);
}

void GaussianOracle::perturb(const Point&, Random& random, Point& g) const {
  for (double& v : g) v += each_ * random.normal();
}

SampledOracle::SampledOracle(const Problem& problem, Index batch)
    : problem_(problem), batch_(batch) {
  if (problem.terms() == 0) {
    throw_invalid("SampledOracle", "'", problem.name(), "' is not a finite sum");
  }
  if (batch < 1) throw_invalid("SampledOracle", "batch must be positive, got ", batch);
}

void SampledOracle::perturb(const Point& x, Random& random, Point& g) const {
  std::ranges::fill(g, 0.0);
  Point term(g.size());
  for (Index b = 0; b < batch_; ++b) {
    const auto i = static_cast<Index>(random.below(static_cast<std::uint64_t>(problem_.terms())));
    problem_.term_gradient(i, x, term);
    for (size_t k = 0; k < g.size(); ++k) g[k] += term[k] / static_cast<double>(batch_);
  }
}

double SampledOracle::variance() const {
  return problem_.term_variance() / static_cast<double>(batch_);
}

}  // namespace normball::lab
