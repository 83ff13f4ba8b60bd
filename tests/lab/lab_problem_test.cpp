#include <cmath>

#include "lab/oracle.h"
#include "lab/problem.h"
#include "lab/run.h"
#include "testing.h"

namespace normball::lab {
namespace {

std::vector<ProblemPtr> all_problems() {
  std::vector<ProblemPtr> all;
  for (const auto norm : {"euclidean", "sign", "spectral", "row", "product", "col"}) {
    for (const auto& info : problems()) all.push_back(info.make(make_space(norm)));
  }
  all.push_back(make_zigzag(7));
  return all;
}

std::string name_of(const Problem& problem) {
  return problem.name() + " in " + problem.space().name();
}

TEST(Problem, GradientIsTheDerivativeOfTheValue) {
  for (const auto& problem : all_problems()) {
    Random random(1);
    for (int trial = 0; trial < 5; ++trial) {
      const Point x = problem->random_point(random);
      Point g(x.size()), moved = x;
      problem->gradient(x, g);
      for (size_t i = 0; i < x.size(); ++i) {
        const double h = 1e-5;
        moved[i] = x[i] + h;
        const double above = problem->value(moved);
        moved[i] = x[i] - h;
        const double below = problem->value(moved);
        moved[i] = x[i];
        EXPECT_NEAR(g[i], (above - below) / (2 * h), 1e-5 * (1 + euclidean_norm(g)))
            << name_of(*problem) << ", entry " << i;
      }
    }
  }
}

TEST(Problem, InfimumIsALowerBoundThatDescentComesCloseTo) {
  for (const auto& problem : all_problems()) {
    if (!problem->smoothness() || problem->name() == "zigzag") continue;
    const auto [l0, l1] = *problem->smoothness();
    lab::Run run(*problem, ggnc(l0 / l1 / (2 * l0), l0 / l1), problem->start());
    for (int k = 0; k < 3000; ++k) run.step();
    const double begin = problem->value(problem->start()) - problem->infimum();
    const double end = run.value_after() - problem->infimum();
    EXPECT_GE(end, 0) << name_of(*problem);
    EXPECT_LT(end, 0.05 * begin) << name_of(*problem);
  }
}

TEST(Problem, ConstrainedInfimumIsBelowTheBallsValuesAndNotBelowTheInfimum) {
  for (const auto name : {"quadratic", "cosh", "logistic"}) {
    const Space space = make_space("spectral");
    const auto problem = make_problem(name, space);
    const double bound = constrained_infimum(*problem, 1.5);
    EXPECT_GE(bound, problem->infimum());
    Random random(2);
    for (int trial = 0; trial < 200; ++trial) {
      Point x = space.sphere(random);
      for (double& v : x) v *= 1.5;
      EXPECT_GE(problem->value(x), bound) << name;
    }
  }
}

// Gradients at pairs of points in the ball, against its L.
TEST(Problem, LipschitzOnTheBallHoldsOnPairs) {
  for (const auto& problem : all_problems()) {
    const auto l = problem->lipschitz_on_ball(1);
    if (!l) continue;
    const Space& space = problem->space();
    Random random(3);
    for (int trial = 0; trial < 200; ++trial) {
      Point x = space.sphere(random), y = space.sphere(random), gx(x.size()), gy(x.size());
      const double close = random.uniform();
      for (size_t i = 0; i < x.size(); ++i) y[i] = close * x[i] + (1 - close) * y[i];
      problem->gradient(x, gx);
      problem->gradient(y, gy);
      EXPECT_LE(space.dual_norm(difference(gx, gy)), (1 + 1e-9) * *l * space.norm(difference(x, y)))
          << name_of(*problem);
    }
  }
}

TEST(Problem, FirstOrderConstantsAreTheSmallestThatGronwallGives) {
  const auto s = first_order(3, 2);
  // (e^(K1 δ) − 1)/(K1 δ) <= 1/ln 2 for δ <= 1/L1 = ln 2 / K1, with equality at the end.
  EXPECT_NEAR(std::expm1(2 / s.l1) / (2 / s.l1) * 2, s.l1, 1e-12);
  EXPECT_NEAR(s.l0 / s.l1, 1.5, 1e-12);
}

TEST(Space, ConstantsBoundTheNormsAndAreAttained) {
  for (const auto norm : {"euclidean", "sign", "spectral", "row", "product", "col"}) {
    const Space space = make_space(norm);
    Random random(4);
    double zeta = 0, zeta_star = 0;
    for (int trial = 0; trial < 3000; ++trial) {
      Point x(space.size());
      for (double& v : x) v = trial % 2 == 0 ? random.normal() : std::pow(random.normal(), 15);
      const double dual = space.dual_norm(x), length = euclidean_norm(x);
      zeta = std::max(zeta, dual / length);
      zeta_star = std::max(zeta_star, length / dual);
      EXPECT_LE(dual, (1 + 1e-12) * space.zeta() * length) << norm;
      EXPECT_LE(length, (1 + 1e-12) * space.zeta_star() * dual) << norm;
    }
    EXPECT_GT(zeta, 0.7 * space.zeta()) << norm;
    EXPECT_GT(zeta_star, 0.7 * space.zeta_star()) << norm;
  }
}

TEST(Oracle, IsUnbiasedWithTheVarianceItClaims) {
  const auto problem = make_problem("logistic", make_space("sign"));
  const Point x = problem->start();
  Point exact(x.size());
  problem->gradient(x, exact);
  const GaussianOracle gaussian(x.size(), 2);
  const SampledOracle sampled(*problem, 4);
  for (const Oracle* oracle :
       {static_cast<const Oracle*>(&gaussian), static_cast<const Oracle*>(&sampled)}) {
    Random random(5);
    const int draws = 20000;
    Point mean(x.size());
    double variance = 0;
    for (int draw = 0; draw < draws; ++draw) {
      Point g = exact;
      oracle->perturb(x, random, g);
      for (size_t i = 0; i < g.size(); ++i) mean[i] += g[i] / draws;
      const Point noise = difference(g, exact);
      variance += inner(noise, noise) / draws;
    }
    EXPECT_LT(euclidean_norm(difference(mean, exact)), 5 * std::sqrt(oracle->variance() / draws))
        << oracle->name();
    EXPECT_LT(variance, 1.05 * oracle->variance()) << oracle->name();
    EXPECT_GT(variance, 0.05 * oracle->variance()) << oracle->name();
  }
  EXPECT_NEAR(gaussian.variance(), 4, 1e-12);
}

TEST(Lab, UnknownNamesAreAnsweredWithTheNearest) {
  using normball::testing::expect_invalid;
  expect_invalid([] { make_space("spektral"); }, {"spektral", "spectral"});
  expect_invalid([] { make_problem("kosh", make_space("row")); }, {"kosh", "cosh"});
  expect_invalid([] { SampledOracle(*make_problem("cosh", make_space("row")), 1); }, {"cosh"});
}

}  // namespace
}  // namespace normball::lab
