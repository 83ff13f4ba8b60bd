// The statements about noisy gradients and momentum. Derivations: docs/lab.md, section 4.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "lab/bounds.h"
#include "lab/run.h"
#include "lab/statement.h"

namespace normball::lab {
namespace {

bool has_smoothness(const Problem& problem) { return problem.smoothness().has_value(); }
bool has_lipschitz(const Problem& problem) { return problem.lipschitz().has_value(); }
bool has_ball_lipschitz(const Problem& problem) { return problem.lipschitz_on_ball(1).has_value(); }
bool fits_rate(const Problem& problem) {
  return problem.name() == "quadratic" || problem.name() == "logistic" || problem.name() == "cosh";
}
bool fits_short_step_rate(const Problem& problem) {
  return problem.name() == "quadratic" || problem.name() == "logistic";
}

double ball_radius(const Space& space) { return space.equal_radii() ? 1.5 : 1; }
const char* text(ShortStep::Variant variant) {
  return variant == ShortStep::Variant::ByNorm ? "variant 1" : "variant 2";
}

// Finite sums are sampled, the others get Gaussian noise in proportion to the gradient at x.
std::unique_ptr<Oracle> make_oracle(const Problem& problem, const Point& x, double share = 0.5) {
  if (problem.terms() > 0) return std::make_unique<SampledOracle>(problem, 4);
  Point g(x.size());
  problem.gradient(x, g);
  return std::make_unique<GaussianOracle>(x.size(), share * euclidean_norm(g));
}

double squared(double x) { return x * x; }

double gradient_square(const Problem& problem, const Point& x) {
  Point g(x.size());
  problem.gradient(x, g);
  return inner(g, g);
}

// One stochastic method with its horizon, and what the constrained one has besides.
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

// The theorem's parameters for a horizon: α = 1/√n, γ = 1/(√n L0), ρ = L0/(2 n^{1/4} L1).
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

// α = 1/√n, γ = 1/(L√n), ρ = n^{-1/4}.
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
  return {.problem = problem,
          .oracle = std::move(oracle),
          .start = start,
          .method = short_step(space, gamma, rho, beta, variant, alpha),
          .horizon = {delta, gamma, rho, n},
          .alpha = alpha,
          .lipschitz = l,
          .beta = beta,
          .setting = std::string(text(variant)) + " " + describe({{"n", n}})};
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

struct Averages {
  double quantity = 0;         // mean over seeds and k
  std::vector<double> errors;  // mean over seeds of ‖λ^k‖₂², for every k
};

Averages run_seeds(const Experiment& e, const Settings& settings) {
  Averages averages{.errors = std::vector<double>(static_cast<size_t>(e.horizon.n))};
  for (int seed = 0; seed < settings.seeds; ++seed) {
    Run run(e.problem, *e.oracle, e.method, e.start, static_cast<std::uint64_t>(seed) + 1);
    for (auto& error : averages.errors) {
      run.step();
      averages.quantity += e.quantity(run) / (static_cast<double>(e.horizon.n) * settings.seeds);
      const Point lambda = run.momentum_error();
      error += inner(lambda, lambda) / settings.seeds;
    }
  }
  return averages;
}

int stochastic_horizon(const Settings& settings) { return settings.quick ? 64 : 1024; }

MomentumError lemma(const Experiment& e, double lipschitz) {
  const double zeta_star = e.problem.space().zeta_star(), variance = e.oracle->variance();
  const double initial = gradient_square(e.problem, e.start);
  return e.beta > 0
             ? short_step_error(e.horizon, e.alpha, variance, zeta_star, lipschitz, e.beta, initial)
             : ggnc_error(e.horizon, e.alpha, variance, zeta_star, lipschitz, initial);
}

// Theorem and lemma on the same runs: the theorem with the errors measured, and where L is known
// with the lemma's errors as well.
void check_theorem(const Experiment& e, std::optional<double> l, const Settings& settings,
                   Tightest& tightest) {
  const Averages averages = run_seeds(e, settings);
  const double zeta = e.problem.space().zeta();
  const auto bound = [&](std::span<const double> errors) {
    return e.beta > 0 ? short_step_stochastic_bound(e.horizon, zeta, e.beta, errors)
                      : ggnc_stochastic_bound(e.horizon, zeta, errors);
  };
  tightest.offer(e.setting + " E‖λ‖² measured", bound(averages.errors), averages.quantity);
  if (l) {
    const MomentumError error = lemma(e, *l);
    std::vector<double> errors;
    for (int k = 1; k <= e.horizon.n; ++k) errors.push_back(error.at(k));
    tightest.offer(e.setting + " E‖λ‖² by the lemma", bound(errors), averages.quantity);
  }
  tightest.add_steps(static_cast<std::int64_t>(e.horizon.n) * settings.seeds);
}

std::vector<Row> check_ggnc(const Problem& problem, const Settings& settings) {
  Tightest tightest;
  const Point start = problem.start();
  const auto s = *problem.smoothness();
  check_theorem(ggnc_experiment(problem, s, start, stochastic_horizon(settings), settings),
                problem.lipschitz(), settings, tightest);
  // The theorem itself asks for γ <= 1/L0 and γρ <= 1/(2 L1) only: long steps, much momentum.
  auto e = ggnc_experiment(problem, s, start, settings.quick ? 32 : 256, settings);
  e.alpha = 0.1;
  e.horizon.gamma = settings.stepsize_factor / s.l0;
  e.horizon.rho = s.l0 / (2 * s.l1);
  e.method = ggnc(e.horizon.gamma * e.horizon.rho, e.horizon.rho, e.alpha);
  e.setting = "γ=1/L0 ρ=L0/(2L1) α=0.1 " + e.setting;
  check_theorem(e, problem.lipschitz(), settings, tightest);
  return {tightest.row()};
}

std::vector<Row> check_short_step(const Problem& problem, const Settings& settings) {
  std::vector<Row> rows;
  for (const auto variant : {ShortStep::Variant::ByNorm, ShortStep::Variant::ByDiameter}) {
    Tightest tightest;
    const auto e = short_step_experiment(problem, variant, stochastic_horizon(settings), settings);
    check_theorem(e, e.lipschitz, settings, tightest);
    rows.push_back(tightest.row());
  }
  return rows;
}

// The recursion, in conditional expectation and so without statistics: given x^1 ... x^k,
//   E‖λ^k‖² = α²σ² + (1−α)²‖d^{k−1} − ∇f(x^k)‖²  is known exactly, at every step of every run.
void check_recursion(const Experiment& e, const Settings& settings,
                     const std::function<double(const Run&)>& drift, Tightest& tightest) {
  const double noise = squared(e.alpha) * e.oracle->variance();
  const int seeds = std::min(settings.seeds, 5);
  for (int seed = 0; seed < seeds; ++seed) {
    Run run(e.problem, *e.oracle, e.method, e.start, static_cast<std::uint64_t>(seed) + 1);
    run.step();
    Point lambda = run.momentum_error(), gradient = run.gradient();
    for (int k = 2; k <= e.horizon.n; ++k) {
      run.step();
      Point stale = lambda;  // d^{k−1} − ∇f(x^k)
      for (size_t i = 0; i < stale.size(); ++i) stale[i] += gradient[i] - run.gradient()[i];
      const double expected = noise + squared(1 - e.alpha) * inner(stale, stale);
      const double bound = (1 - e.alpha / 2) * inner(lambda, lambda) + noise + drift(run) / e.alpha;
      tightest.offer(e.setting, bound, expected);
      lambda = run.momentum_error();
      gradient = run.gradient();
    }
  }
  tightest.add_steps(static_cast<std::int64_t>(e.horizon.n) * seeds);
}

std::vector<Row> check_ggnc_recursion(const Problem& problem, const Settings& settings) {
  const auto s = *problem.smoothness();
  const auto e =
      ggnc_experiment(problem, s, problem.start(), stochastic_horizon(settings), settings);
  const double step = squared(e.horizon.gamma * e.horizon.rho * problem.space().zeta_star());
  Tightest tightest;
  check_recursion(
      e, settings,
      [&](const Run& run) { return 4 * step * (squared(s.l0) + squared(s.l1 * run.dual_norm())); },
      tightest);
  return {tightest.row()};
}

std::vector<Row> check_short_step_recursion(const Problem& problem, const Settings& settings) {
  Tightest tightest;
  for (const auto variant : {ShortStep::Variant::ByNorm, ShortStep::Variant::ByDiameter}) {
    const auto e = short_step_experiment(problem, variant, stochastic_horizon(settings), settings);
    const double drift = 8 * squared(e.horizon.gamma * e.horizon.rho * e.beta * e.lipschitz *
                                     problem.space().zeta_star());
    check_recursion(
        e, settings, [&](const Run&) { return drift; }, tightest);
  }
  return {tightest.row()};
}

// E‖λ^k‖² at every k <= n, mean over seeds, against the lemma with its initial term.
void check_errors(const Experiment& e, double l, const Settings& settings, Tightest& tightest) {
  const Averages averages = run_seeds(e, settings);
  const MomentumError error = lemma(e, l);
  for (int k = 1; k <= e.horizon.n; ++k) {
    tightest.offer(e.setting + " k=" + std::to_string(k), error.at(k),
                   averages.errors[static_cast<size_t>(k - 1)]);
  }
  tightest.add_steps(static_cast<std::int64_t>(e.horizon.n) * settings.seeds);
}

std::vector<Row> check_ggnc_errors(const Problem& problem, const Settings& settings) {
  Tightest tightest;
  check_errors(ggnc_experiment(problem, *problem.smoothness(), problem.start(),
                               stochastic_horizon(settings), settings),
               *problem.lipschitz(), settings, tightest);
  return {tightest.row()};
}

std::vector<Row> check_short_step_errors(const Problem& problem, const Settings& settings) {
  Tightest tightest;
  for (const auto variant : {ShortStep::Variant::ByNorm, ShortStep::Variant::ByDiameter}) {
    const auto e = short_step_experiment(problem, variant, stochastic_horizon(settings), settings);
    check_errors(e, e.lipschitz, settings, tightest);
  }
  return {tightest.row()};
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
  char interval[64];
  std::snprintf(interval, sizeof interval, "slope %.3f in [%.3f, %.3f]", row.rate->slope,
                row.rate->low, row.rate->high);
  row.setting = interval;
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

constexpr std::array<Statement, 8> table = {{
    {"ggnc-stochastic", "thm:GGNC, corrected",
     "GGNC with momentum: mean E‖∇f(x^k)‖* ≤ 2√(Δ/(γn)) + 4Δ/(γρn) + 2√ε + 4ε/ρ, "
     "ε = mean of 2ρζ√u + ζ²u/2, u = E‖λ^k‖₂²",
     Kind::Stochastic, has_smoothness, check_ggnc},
    {"s3cg-stochastic", "thm:SCGSS and its variant 2, corrected",
     "S³CG with momentum: mean E(Wolfe gap) ≤ 4β√(Δ/(γn)) + 2Δ/(γρn) + 4β√ε + 2ε/ρ, "
     "ε = mean of 3ρD₂√u/2 + D₂²u/(8β²)",
     Kind::Stochastic, has_ball_lipschitz, check_short_step},
    {"ggnc-recursion", "lem:GGNC:error, corrected proof",
     "E‖λ^k‖₂² ≤ (1−α/2)‖λ^{k−1}‖₂² + α²σ² + 4γ²ζ*²ρ²(L0² + L1²‖∇f(x^k)‖*²)/α for k ≥ 2",
     Kind::Stochastic, has_smoothness, check_ggnc_recursion},
    {"s3cg-recursion", "lem:SCGSS:error_recursive, corrected",
     "E‖λ^k‖₂² ≤ (1−α/2)‖λ^{k−1}‖₂² + α²σ² + 8ζ*²L²β²γ²ρ²/α for k ≥ 2", Kind::Stochastic,
     has_ball_lipschitz, check_short_step_recursion},
    {"ggnc-error", "lem:GGNC:errorbound_modified, corrected",
     "E‖λ^k‖₂² ≤ (1−1/(2√n))^k ‖∇f(x¹)‖₂² + 2(σ² + ζ*²L²/L1²)/√n for all k ≤ n", Kind::Stochastic,
     has_lipschitz, check_ggnc_errors},
    {"s3cg-error", "lem:SCGSS:error_rate, corrected",
     "E‖λ^k‖₂² ≤ (1−1/(2√n))^k ‖∇f(x¹)‖₂² + (2σ² + 16ζ*²β²)/√n for all k ≤ n", Kind::Stochastic,
     has_ball_lipschitz, check_short_step_errors},
    {"ggnc-rate", "thm:GGNC, rate",
     "GGNC with momentum: mean E‖∇f(x^k)‖* falls like n^{-1/4} or faster", Kind::Rate, fits_rate,
     check_ggnc_rate},
    {"s3cg-rate", "thm:SCGSS and its variant 2, rate",
     "S³CG with momentum: mean E(Wolfe gap) falls like n^{-1/4} or faster", Kind::Rate,
     fits_short_step_rate, check_short_step_rate},
}};

}  // namespace

std::span<const Statement> stochastic_statements() { return table; }

}  // namespace normball::lab
