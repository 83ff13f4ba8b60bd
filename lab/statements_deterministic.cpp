// The statements about exact gradients. Derivations: docs/lab.md, section 3.
#include <algorithm>
#include <array>
#include <cmath>

#include "lab/bounds.h"
#include "lab/run.h"
#include "lab/smoothness_probe.h"
#include "lab/statement.h"
#include "lab/statement_tools.h"

namespace normball::lab {
namespace {

constexpr double quotient_slack = 1 + 1e-9;  // of a difference quotient that attains its bound

bool always(const Problem&) { return true; }

double dual_norm_of(const Run& run) { return run.dual_norm(); }

// asm:Lip and the definition of L-smoothness, on pairs of random points, with directions that the
// power method bends towards large curvature.
std::vector<Row> check_assumption(const Problem& problem, const Settings& settings) {
  const Space& space = problem.space();
  const auto [l0, l1] = *problem.smoothness();
  Random random(11);
  Tightest first_order_row, lipschitz_row;
  Point gx(space.size()), gy(space.size()), u;
  for (int trial = 0; trial < (settings.quick ? 100 : 2000); ++trial) {
    const Point x = problem.random_point(random);
    problem.gradient(x, gx);
    const double allowed = l0 + l1 * space.dual_norm(gx);
    if (trial % 2 == 0) {
      space.ascent_direction(gx, u);
    } else {
      u = space.sphere(random);
    }
    for (int climb = 0; climb < 3; ++climb) {
      const double distance = std::pow(10, -3 * random.uniform()) / l1;
      Point y = x;
      for (size_t i = 0; i < y.size(); ++i) y[i] += distance * u[i];
      problem.gradient(y, gy);
      const Point change = difference(gy, gx);
      const double ratio = space.dual_norm(change) / space.norm(difference(y, x));
      first_order_row.offer("pairs up to 1/L1 apart", quotient_slack, ratio / allowed);
      if (const auto l = problem.lipschitz()) {
        lipschitz_row.offer("L everywhere", quotient_slack, ratio / *l);
      }
      space.ascent_direction(change, u);
    }
  }
  std::vector<Row> rows = {first_order_row.row()};
  if (problem.lipschitz()) rows.push_back(lipschitz_row.row());
  return rows;
}

std::vector<Row> check_ucg_smooth(const Problem& problem, const Settings& settings) {
  const double l = *problem.lipschitz();
  const double delta = problem.value(problem.start()) - problem.infimum();
  const auto at = horizons(settings);
  Tightest tightest;
  for (const double size : {1.0, 0.1, 0.01}) {
    const double lr = size * std::sqrt(2 * delta / l);
    Run run(problem, ucg(lr), problem.start());
    check_means(
        run, at, dual_norm_of,
        [&](int n) {
          return ucg_smooth_bound({delta, lr, 1, n}, l);
        },
        describe({{"γρ", lr}}), tightest);
  }
  return {tightest.row()};
}

std::vector<Row> check_ucg(const Problem& problem, const Settings& settings) {
  const auto [l0, l1] = *problem.smoothness();
  const double delta = problem.value(problem.start()) - problem.infimum();
  const auto at = horizons(settings);
  Tightest tightest;
  for (const double share : {0.999, 0.1, 0.01}) {
    const double lr = settings.stepsize_factor * share / (2 * l1);
    Run run(problem, ucg(lr), problem.start());
    check_means(
        run, at, dual_norm_of,
        [&, lr, l0 = l0](int n) {
          return ucg_bound({delta, lr, 1, n}, l0);
        },
        describe({{"γρ", lr}}), tightest);
  }
  return {tightest.row()};
}

// A threshold and the largest stepsize that the theorem allows with it, times the factor.
struct Clipping {
  double rho, gamma;
};
std::array<Clipping, 3> clippings(const Smoothness& s, const Settings& settings) {
  std::array<Clipping, 3> result{};
  for (size_t i = 0; i < 3; ++i) {
    const double rho = std::array{1.0, 0.1, 10.0}[i] * s.l0 / s.l1;
    result[i] = {rho, settings.stepsize_factor / (s.l0 + rho * s.l1)};
  }
  return result;
}

std::vector<Row> check_ggnc(const Problem& problem, const Settings& settings) {
  const double delta = problem.value(problem.start()) - problem.infimum();
  const auto at = horizons(settings);
  Tightest tightest;
  for (const auto& [rho, gamma] : clippings(*problem.smoothness(), settings)) {
    Run run(problem, ggnc(gamma * rho, rho), problem.start());
    check_means(
        run, at, dual_norm_of,
        [&, g = gamma, r = rho](int n) {
          return ggnc_bound({delta, g, r, n});
        },
        describe({{"γ", gamma}, {"ρ", rho}}), tightest);
  }
  return {tightest.row()};
}

std::vector<Row> check_ggnc_special(const Problem& problem, const Settings& settings) {
  const auto [l0, l1] = *problem.smoothness();
  const double delta = problem.value(problem.start()) - problem.infimum();
  const double rho = l0 / l1, gamma = settings.stepsize_factor / (2 * l0);
  Tightest tightest;
  Run run(problem, ggnc(gamma * rho, rho), problem.start());
  check_means(
      run, horizons(settings), dual_norm_of,
      [&, a = l0, b = l1](int n) { return 2 * std::sqrt(a * delta / n) + 4 * b * delta / n; },
      describe({{"γ", gamma}, {"ρ", rho}}), tightest);
  return {tightest.row()};
}

// f(x^{k+1}) <= f(x^k) − γτ‖∇f(x^k)‖*²/2 at every step: the share of that decrease in the real one.
std::vector<Row> check_descent(const Problem& problem, const Settings& settings) {
  Random random(13);
  Tightest tightest;
  const int steps = settings.quick ? 100 : 11000;
  for (const auto& [rho, gamma] : clippings(*problem.smoothness(), settings)) {
    int taken = 0;
    while (taken < steps) {
      Run run(problem, ggnc(gamma * rho, rho), problem.random_point(random));
      double first = 0;
      do {
        run.step();
        ++taken;
        const double dual = run.report().pairing, tau = std::min(1.0, rho / dual);
        const double from = run.value_before(), to = run.value_after();
        const double allowance = rounding * std::max(std::abs(from), std::abs(to));
        const double wanted = gamma * tau * dual * dual / 2, got = from - to + allowance;
        first = std::max(first, dual);
        if (!(wanted > 0 || got < 0)) break;
        // An ascent has no share: any number above the bound will do.
        tightest.offer(describe({{"γ", gamma}, {"ρ", rho}}), 1,
                       got > 0 && std::isfinite(got) ? wanted / got : 1e9);
        if (!(dual > 1e-7 * first) || !std::isfinite(to)) break;
      } while (taken < steps);
    }
    tightest.add_steps(taken);
  }
  return {tightest.row()};
}

// Needs no constants: ‖x^{k+1} − x^k‖ <= γρ for GGNC and ‖x^k‖ <= β for S³CG.
std::vector<Row> check_lengths(const Problem& problem, const Settings& settings) {
  const Space& space = problem.space();
  Tightest steps, ball;
  const double slack = 1 + 1e-12;
  for (const double lr : {0.1, 0.003}) {
    Run run(problem, ggnc(lr, 1), problem.start());
    for (int k = 0; k < (settings.quick ? 50 : 500); ++k) {
      run.step();
      steps.offer("GGNC step, " + describe({{"γρ", lr}}), slack * lr,
                  space.norm(difference(run.after(), run.before())));
    }
    steps.add_steps(settings.quick ? 50 : 500);
  }
  const double beta = ball_radius(space);
  for (const auto variant : {ShortStep::Variant::ByNorm, ShortStep::Variant::ByDiameter}) {
    Run run(problem, short_step(space, 0.5, 1, beta, variant), on_sphere(space, beta));
    for (int k = 0; k < (settings.quick ? 50 : 500); ++k) {
      run.step();
      ball.offer("S³CG iterate", slack * beta, space.norm(run.after()));
    }
    ball.add_steps(settings.quick ? 50 : 500);
  }
  return {steps.row(), ball.row()};
}

// A probe that looks around where a pilot run passes, and steers it by what it has seen so far.
SmoothnessFit pilot(const Problem& problem) {
  const Space& space = problem.space();
  SmoothnessProbe probe(space.layers());
  const SmoothnessProbe::GradientAt gradient_at = [&](SmoothnessProbe::Views x,
                                                      SmoothnessProbe::Views g) {
    Point at, slope(space.size());
    for (const auto& view : x) at.insert(at.end(), view.data, view.data + view.size());
    problem.gradient(at, slope);
    size_t from = 0;
    for (const auto& view : g) {
      std::copy_n(slope.data() + from, view.size(), view.data);
      from += static_cast<size_t>(view.size());
    }
  };
  Point x = problem.start();
  for (std::uint64_t look = 0; look < 60; ++look) {
    probe.explore(space.views(x), gradient_at, 1e-5, 2, look);
    const Suggestion s = suggest(probe.fit());
    const double rho = std::min(s.rho, 1e12);
    Run run(problem, ggnc(s.gamma * rho, rho), x);
    for (int k = 0; k < 5; ++k) run.step();
    x = run.after();
  }
  return probe.fit();
}

// With the stepsizes that the probe suggests after a pilot run GGNC descends, also where no
// constants are known. The probe's answer is an estimate: this is a test, not a theorem.
std::vector<Row> check_probe(const Problem& problem, const Settings& settings) {
  const Suggestion s = suggest(pilot(problem));
  const double rho = std::min(s.rho, 1e12);
  Run run(problem, ggnc(s.gamma * rho, rho), problem.start());
  Tightest tightest;
  double first = 0;
  for (int k = 0; k < (settings.quick ? 100 : 1000); ++k) {
    run.step();
    tightest.add_steps(1);
    first = std::max(first, run.report().pairing);
    if (!(run.report().pairing > 1e-7 * first)) break;  // at the level of rounding soon
    tightest.offer(describe({{"γ", s.gamma}, {"ρ", s.rho}}) + " f(x^{k+1})/f(x^k)", 1 + rounding,
                   run.value_after() / run.value_before());
  }
  return {tightest.row()};
}

constexpr std::array<Statement, 8> table = {{
    {"assumption", "asm:Lip, def:Lip",
     "‖∇f(x)−∇f(y)‖* ≤ (L0 + L1‖∇f(x)‖*)‖x−y‖ for ‖x−y‖ ≤ 1/L1: the problems' own constants",
     Kind::Deterministic, has_smoothness, check_assumption},
    {"ucg-smooth", "proposition on uCG under L-smoothness",
     "uCG: mean ‖∇f(x^k)‖* ≤ Δ/(γρn) + Lγρ/2 for every γρ", Kind::Deterministic, has_lipschitz,
     check_ucg_smooth},
    {"ucg", "thm:det:uSCG", "uCG: mean ‖∇f(x^k)‖* ≤ 2Δ/(γρn) + 2L0γρ for γρ < 1/(2L1)",
     Kind::Deterministic, has_smoothness, check_ucg},
    {"ggnc", "thm:det:GGNC, corrected",
     "GGNC: mean ‖∇f(x^k)‖* ≤ √(2Δ/(γn)) + 2Δ/(γρn) for γ ≤ 1/(L0+ρL1)", Kind::Deterministic,
     has_smoothness, check_ggnc},
    {"ggnc-special", "thm:det:GGNC, special case, corrected",
     "GGNC with ρ = L0/L1, γ = 1/(2L0): mean ‖∇f(x^k)‖* ≤ 2√(L0Δ/n) + 4L1Δ/n", Kind::Deterministic,
     has_smoothness, check_ggnc_special},
    {"descent", "thm:det:GGNC, its descent inequality",
     "GGNC: f(x^{k+1}) ≤ f(x^k) − γτ‖∇f(x^k)‖*²/2 at every step for γ ≤ 1/(L0+ρL1)",
     Kind::Deterministic, has_smoothness, check_descent},
    {"lengths", "Algorithms 1 and 2", "GGNC: ‖x^{k+1}−x^k‖ ≤ γρ; S³CG: ‖x^k‖ ≤ β",
     Kind::Deterministic, always, check_lengths},
    {"probe", "none: a test of the probe",
     "GGNC with the stepsizes that the probe suggests after a pilot run never ascends",
     Kind::Deterministic, always, check_probe},
}};

}  // namespace

std::span<const Statement> deterministic_statements() { return table; }

}  // namespace normball::lab
