// The rates of the stochastic theorems, as fitted slopes. What these runs choose and why:
// docs/lab.md, section 4.
#include <algorithm>
#include <array>
#include <cmath>

#include "lab/experiment.h"
#include "normball/base/text.h"

namespace normball::lab {
namespace {

bool fits_rate(const Problem& problem) {
  return problem.name() == "quadratic" || problem.name() == "logistic" || problem.name() == "cosh";
}
bool fits_short_step_rate(const Problem& problem) {
  return problem.name() == "quadratic" || problem.name() == "logistic";
}

const char* text(ShortStep::Variant variant) {
  return variant == ShortStep::Variant::ByNorm ? "variant 1" : "variant 2";
}

// Mean over k of the quantity for one seed: over about 500 iterates, evenly spaced from a random
// first one, where the run is longer than that. Each k is as likely as the others.
double trajectory_mean(const Experiment& e, std::uint64_t seed) {
  Run run(e.problem, *e.oracle, e.method, e.start, seed);
  const int stride = std::max(1, e.horizon.n / 500);
  const auto first = static_cast<int>(Random(~seed).below(static_cast<std::uint64_t>(stride)));
  double sum = 0;
  int count = 0;
  for (int k = 0; k < e.horizon.n; ++k) {
    run.step();
    if (k % stride != first) continue;
    sum += e.quantity(run);
    ++count;
  }
  return sum / count;
}

// Three decades of horizons (two where quick), seeds of its own at each.
template <class MakeExperiment>
Row fit(const MakeExperiment& make, double first, const Settings& settings) {
  std::vector<double> horizons;
  std::vector<std::vector<double>> samples;
  const double last = first * (settings.quick ? 100 : 1000);
  Row row;
  std::uint64_t seed = 1000;
  for (double n = first; n < 1.01 * last; n *= std::pow(10, 0.5)) {
    const int whole = static_cast<int>(std::lround(n));
    const Experiment e = make(whole);
    horizons.push_back(whole);
    samples.emplace_back();
    for (int s = 0; s < settings.seeds; ++s) samples.back().push_back(trajectory_mean(e, ++seed));
    row.steps += static_cast<std::int64_t>(whole) * settings.seeds;
  }
  row.rate = fit_rate(horizons, samples);
  row.setting =
      printed("slope %.3f in [%.3f, %.3f]", row.rate->slope, row.rate->low, row.rate->high);
  row.bound = -0.25;
  row.measured = row.rate->low;
  row.pass = row.measured <= row.bound;
  return row;
}

// L1 is free for L-smooth f; a small one lets the shortest run reach the solution.
std::vector<Row> check_ggnc_rate(const Problem& problem, const Settings& settings) {
  Smoothness s = *problem.smoothness();
  if (problem.lipschitz()) s.l1 /= 16;
  // Start where GGNC with exact gradients first meets ‖∇f‖* <= L0/L1 / 4.
  Run approach(problem, ggnc(s.l0 / s.l1 / (2 * s.l0), s.l0 / s.l1), problem.start());
  do approach.step();
  while (approach.dual_norm() > s.l0 / s.l1 / 4);
  const Point start = approach.before();
  return {fit(
      [&](int n) {
        auto e = ggnc_experiment(problem, s, start, n, settings);
        e.oracle = make_oracle(problem, start, 0.25);
        return e;
      },
      settings.quick ? 316 : 100, settings)};
}

// ρ = n^{-1/4} is an absolute threshold: f is scaled to L = 1/8, so that the shortest run can move.
std::vector<Row> check_short_step_rate(const Problem& problem, const Settings& settings) {
  const double l = *problem.lipschitz_on_ball(ball_radius(problem.space()));
  const auto small = scaled(make_problem(problem.name(), problem.space()), 1 / (8 * l));
  std::vector<Row> rows;
  for (const auto variant : {ShortStep::Variant::ByNorm, ShortStep::Variant::ByDiameter}) {
    rows.push_back(fit([&](int n) { return short_step_experiment(*small, variant, n, settings); },
                       32, settings));
    rows.back().setting = std::string(text(variant)) + ", " + rows.back().setting;
  }
  return rows;
}

constexpr std::array<Statement, 2> table = {{
    {"ggnc-rate", "thm:GGNC, rate",
     "GGNC with momentum: mean E‖∇f(x^k)‖* falls like n^{-1/4} or faster", Kind::Rate, fits_rate,
     check_ggnc_rate},
    {"s3cg-rate", "thm:SCGSS and its variant 2, rate",
     "S³CG with momentum: mean E(Wolfe gap) falls like n^{-1/4} or faster", Kind::Rate,
     fits_short_step_rate, check_short_step_rate},
}};

}  // namespace

std::span<const Statement> rate_statements() { return table; }

}  // namespace normball::lab
