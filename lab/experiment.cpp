#include "lab/experiment.h"

#include <algorithm>
#include <cmath>

namespace normball::lab {

std::unique_ptr<Oracle> make_oracle(const Problem& problem, const Point& x, double share) {
  if (problem.terms() > 0) return std::make_unique<SampledOracle>(problem, 4);
  Point g(x.size());
  problem.gradient(x, g);
  return std::make_unique<GaussianOracle>(x.size(), share * euclidean_norm(g));
}

Experiment ggnc_experiment(const Problem& problem, const Smoothness& s, const Point& start, int n,
                           const Settings& settings) {
  const double root = std::sqrt(n), alpha = 1 / root;
  const double gamma = settings.stepsize_factor / (root * s.l0);
  const double rho = s.l0 / (2 * std::sqrt(root) * s.l1);
  const double delta = problem.value(start) - problem.infimum();
  return {.problem = problem,
          .oracle = make_oracle(problem, start),
          .start = start,
          .method = ggnc(gamma * rho, rho, alpha),
          .horizon = {delta, gamma, rho, n},
          .alpha = alpha,
          .setting = describe({{"n", n}})};
}

Experiment short_step_experiment(const Problem& problem, ShortStep::Variant variant, int n,
                                 const Settings& settings) {
  const Space& space = problem.space();
  const double beta = ball_radius(space), l = *problem.lipschitz_on_ball(beta);
  const double root = std::sqrt(n), alpha = 1 / root;
  const double gamma = settings.stepsize_factor / (root * l);
  const double rho = std::min(1 / std::sqrt(root), 1 / gamma);
  Random random(23);
  Point start = space.sphere(random);
  for (double& v : start) v *= beta;
  const double delta = problem.value(start) - constrained_infimum(problem, beta);
  auto oracle = make_oracle(problem, start);
  return {
      .problem = problem,
      .oracle = std::move(oracle),
      .start = start,
      .method = short_step(space, gamma, rho, beta, variant, alpha),
      .horizon = {delta, gamma, rho, n},
      .alpha = alpha,
      .lipschitz = l,
      .beta = beta,
      .setting = std::string(variant == ShortStep::Variant::ByNorm ? "variant 1" : "variant 2") +
                 " " + describe({{"n", n}})};
}

}  // namespace normball::lab
