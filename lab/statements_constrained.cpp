// The statements about S³CG with exact gradients. Derivations: docs/lab.md, section 3.
#include <algorithm>
#include <array>
#include <cmath>

#include "lab/bounds.h"
#include "lab/statement_tools.h"

namespace normball::lab {
namespace {

struct ShortStepSetting {
  double gamma, rho;
  ShortStep::Variant variant;
};

std::vector<ShortStepSetting> short_steps(double l, const Settings& settings) {
  std::vector<ShortStepSetting> result;
  const double gamma = settings.stepsize_factor / l;
  for (const auto variant : {ShortStep::Variant::ByNorm, ShortStep::Variant::ByDiameter}) {
    for (const double share : {1.0, 0.1}) result.push_back({gamma, share / gamma, variant});
    result.push_back({gamma / 3, 1 / gamma, variant});
  }
  return result;
}

std::string describe_short_step(const ShortStepSetting& s) {
  return std::string(s.variant == ShortStep::Variant::ByNorm ? "variant 1 " : "variant 2 ") +
         describe({{"γ", s.gamma}, {"ρ", s.rho}});
}

std::vector<Row> check_short_step(const Problem& problem, const Settings& settings) {
  const Space& space = problem.space();
  const double beta = ball_radius(space);
  const Point start = on_sphere(space, beta);
  const double delta = problem.value(start) - constrained_infimum(problem, beta);
  Tightest tightest;
  for (const auto& s : short_steps(*problem.lipschitz_on_ball(beta), settings)) {
    Run run(problem, short_step(space, s.gamma, s.rho, beta, s.variant), start);
    check_means(
        run, horizons(settings), [&](const Run& r) { return r.wolfe_gap(beta); },
        [&](int n) {
          return short_step_bound({delta, s.gamma, s.rho, n}, beta);
        },
        describe_short_step(s), tightest);
  }
  return {tightest.row()};
}

// f(x^k) − f(x^{k+1}) >= γη⟨∇f(x^k), v⟩/2 in both cases of the proof.
std::vector<Row> check_short_step_descent(const Problem& problem, const Settings& settings) {
  const Space& space = problem.space();
  const double beta = ball_radius(space);
  Random random(17);
  Tightest tightest;
  for (const auto& s : short_steps(*problem.lipschitz_on_ball(beta), settings)) {
    for (int start = 0; start < (settings.quick ? 2 : 10); ++start) {
      Point x = space.sphere(random);
      for (double& v : x) v *= beta * (start % 2 == 0 ? 1 : random.uniform());
      Run run(problem, short_step(space, s.gamma, s.rho, beta, s.variant), x);
      for (int k = 0; k < 100; ++k) {
        run.step();
        const double from = run.value_before(), to = run.value_after();
        const double wanted = s.gamma * run.report().eta * run.report().pairing / 2;
        const double got = from - to + rounding * std::max(std::abs(from), std::abs(to));
        if (wanted > 0) tightest.offer(describe_short_step(s), 1, got > 0 ? wanted / got : 1e9);
      }
      tightest.add_steps(100);
    }
  }
  return {tightest.row()};
}

constexpr std::array<Statement, 2> table = {{
    {"s3cg", "theorem on S³CG, deterministic, corrected",
     "S³CG: mean Wolfe gap ≤ 2β√(2Δ/(γn)) + 2Δ/(γρn) for γ ≤ 1/L, γρ ≤ 1", Kind::Deterministic,
     has_ball_lipschitz, check_short_step},
    {"s3cg-descent", "theorem on S³CG, deterministic, its descent inequality",
     "S³CG: f(x^{k+1}) ≤ f(x^k) − γη⟨∇f(x^k), v⟩/2 at every step for γ ≤ 1/L", Kind::Deterministic,
     has_ball_lipschitz, check_short_step_descent},
}};

}  // namespace

std::span<const Statement> constrained_statements() { return table; }

}  // namespace normball::lab
