// What the paper prints where that does not hold, on problems that show it. These rows do not
// count: a violation here is the finding. Reasons: docs/lab.md, section 5.
#include <array>
#include <cmath>

#include "lab/bounds.h"
#include "lab/oracle.h"
#include "lab/run.h"
#include "lab/statement.h"

namespace normball::lab {
namespace {

bool never(const Problem&) { return false; }
bool is_quadratic(const Problem& problem) { return problem.name() == "quadratic"; }

int worst_case_steps(const Settings& settings) { return settings.quick ? 10 : 1000; }

// The smallest of a quantity over the steps of a run.
template <class Quantity>
double smallest(Run& run, int steps, const Quantity& quantity) {
  double least = INFINITY;
  for (int k = 0; k < steps; ++k) {
    run.step();
    least = std::min(least, quantity(run));
  }
  return least;
}

Row compare(const std::string& setting, double bound, double measured, int steps) {
  return {.setting = setting,
          .bound = bound,
          .measured = measured,
          .pass = measured <= bound,
          .steps = steps};
}

std::vector<Row> check_ggnc(const Settings& settings) {
  const int n = worst_case_steps(settings);
  const auto problem = make_zigzag(n);
  const double delta = problem->value(problem->start()) - problem->infimum();
  const double rho = 1e9, gamma = 1;  // ‖∇f‖* <= 1 < ρ; (L0, L1) = (1, 0) allows γ = 1/L0
  Run run(*problem, ggnc(gamma * rho, rho), problem->start());
  const double least = smallest(run, n, [](const Run& r) { return r.dual_norm(); });
  return {compare(describe({{"γ", gamma}, {"n", n}}), ggnc_printed_bound({delta, gamma, rho, n}),
                  least, n)};
}

std::vector<Row> check_ggnc_special(const Settings& settings) {
  const int n = worst_case_steps(settings);
  const auto problem = make_zigzag(n);
  const auto [l0, l1] = *problem->smoothness();
  const double delta = problem->value(problem->start()) - problem->infimum();
  const double rho = l0 / l1, gamma = 1 / l0;
  Run run(*problem, ggnc(gamma * rho, rho), problem->start());
  const double least = smallest(run, n, [](const Run& r) { return r.dual_norm(); });
  return {compare(describe({{"γ", gamma}, {"ρ", rho}, {"n", n}}),
                  std::sqrt(l0 * delta / n) + 2 * l1 * delta / n, least, n)};
}

std::vector<Row> check_short_step(const Settings& settings) {
  const int n = worst_case_steps(settings);
  const double beta = 1000.0 * n, gamma = 1, rho = 1;
  const auto problem = make_zigzag(n, beta);
  const double delta = problem->value(problem->start()) - problem->infimum();
  Run run(*problem, short_step(problem->space(), gamma, rho, beta, ShortStep::Variant::ByNorm),
          problem->start());
  const double least = smallest(run, n, [&](const Run& r) { return r.wolfe_gap(beta); });
  return {compare(describe({{"γ", gamma}, {"ρ", rho}, {"β", beta}, {"n", n}}),
                  short_step_printed_bound({delta, gamma, rho, n}, beta), least, n)};
}

// d⁰ = 0 makes the first error almost the whole gradient: ‖λ¹‖ ≈ (1 − α)‖∇f(x¹)‖.
std::vector<Row> check_error(const Problem& problem, const Settings& settings) {
  const auto [l0, ignored] = *problem.smoothness();
  const Point start = problem.start();
  Point g(start.size());
  problem.gradient(start, g);
  const GaussianOracle oracle(start.size(), 0.01 * euclidean_norm(g));
  const int n = 1000000;
  // L1 is free for L-smooth f: large enough here for the drift's part to be small.
  const double l1 = 10 * problem.space().zeta_star() * l0 / euclidean_norm(g);
  const double root = std::sqrt(n), alpha = 1 / root, gamma = 1 / (root * l0);
  const double rho = l0 / (2 * std::sqrt(root) * l1);
  double mean = 0;
  for (int seed = 0; seed < settings.seeds; ++seed) {
    Run run(problem, oracle, ggnc(gamma * rho, rho, alpha), start,
            static_cast<std::uint64_t>(seed) + 1);
    run.step();
    const Point lambda = run.momentum_error();
    mean += inner(lambda, lambda) / settings.seeds;
  }
  const auto error = ggnc_error({0, gamma, rho, n}, alpha, oracle.variance(),
                                problem.space().zeta_star(), l0, inner(g, g));
  return {compare("k=1 n=1000000", error.printed(), mean, settings.seeds)};
}

constexpr std::array<Statement, 4> table = {{
    {"printed-ggnc", "thm:det:GGNC as printed", "GGNC: min ‖∇f(x^k)‖* ≤ √(Δ/(γn)) + 2Δ/(γρn)",
     Kind::Printed, never, nullptr, check_ggnc},
    {"printed-ggnc-special", "thm:det:GGNC, special case as printed",
     "GGNC with ρ = L0/L1, γ = 1/L0: min ‖∇f(x^k)‖* ≤ √(L0Δ/n) + 2L1Δ/n", Kind::Printed, never,
     nullptr, check_ggnc_special},
    {"printed-s3cg", "theorem on S³CG, deterministic, as printed",
     "S³CG: min Wolfe gap ≤ 2β√(Δ/(γn)) + 2Δ/(γρn)", Kind::Printed, never, nullptr,
     check_short_step},
    {"printed-error", "lem:GGNC:errorbound_modified as printed",
     "E‖λ^k‖₂² ≤ 2(σ² + ζ*²L²/L1²)/√n for all k ≤ n", Kind::Printed, is_quadratic, check_error,
     nullptr, true},
}};

}  // namespace

std::span<const Statement> printed_statements() { return table; }

}  // namespace normball::lab
