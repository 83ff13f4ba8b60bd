// The statements about noisy gradients and momentum. Derivations: docs/lab.md, section 4.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "lab/bounds.h"
#include "lab/experiment.h"
#include "lab/statement.h"

namespace normball::lab {
namespace {

double squared(double x) { return x * x; }

double gradient_square(const Problem& problem, const Point& x) {
  Point g(x.size());
  problem.gradient(x, g);
  return inner(g, g);
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

constexpr std::array<Statement, 6> table = {{
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
}};

}  // namespace

std::span<const Statement> stochastic_statements() { return table; }

}  // namespace normball::lab
