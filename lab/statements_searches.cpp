// The statements about line searches. Derivations: docs/lab.md, section 9.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "lab/bounds.h"
#include "lab/statement_tools.h"
#include "normball/base/error.h"
#include "normball/line_search.h"

namespace normball::lab {
namespace {

// What a line search is promised in n steps, from the slope and the method's own step at the start.
struct SearchBounds {
  std::function<double(int n)> mean, evaluations;
};

// GGNC from a γ that is far off, with a line search. Told to forget, it believes that every trial
// descends.
void check_search(const Problem& problem, const Settings& settings, double gamma, double rho,
                  const SearchRule& rule, const SearchBounds& bounds, Tightest& tightest) {
  const Space& space = problem.space();
  Point x = problem.start(), exact(space.size()), g(space.size());
  Optimizer<double> optimizer(ggnc(gamma * rho, rho), space.layers(),
                              {.threads = 1, .undoable = true});
  LineSearch<double> search(optimizer, rule);
  const auto weights = space.views(x), gradients = space.views(g);
  std::vector<Parameter<double>> parameters;
  for (size_t l = 0; l < weights.size(); ++l) parameters.push_back({weights[l], gradients[l]});
  const std::string setting = describe({{"γ", gamma}, {"ρ", rho}});
  const auto at = horizons(settings);
  double sum = 0;
  std::int64_t evaluations = 0;
  size_t next = 0;
  bool compared = false, resolved = true;  // what a trial takes off is more than its rounding
  const auto evaluate = [&] {
    const bool believe = settings.forget && compared;
    compared = true;
    return believe ? -std::numeric_limits<double>::infinity() : problem.value(x);
  };
  for (int n = 1; n <= at.back(); ++n) {
    problem.gradient(x, exact);
    std::ranges::copy(exact, g.begin());  // which stays where the parameters look
    sum += space.dual_norm(g);
    const double f = problem.value(x);
    if (!std::isfinite(sum + f)) return tightest.offer(setting + " diverged", 1, sum);
    try {
      const SearchReport& report = search.step(parameters, f, evaluate);
      evaluations += report.evaluations;
      resolved &= report.step * report.slope > rounding * (1 + std::abs(f));
    } catch (const NonFiniteError&) {  // of a search that was broken
      return tightest.offer(setting + " diverged", 1, std::numeric_limits<double>::infinity());
    }
    if (n != at[next]) continue;
    const std::string when = setting + " n=" + std::to_string(n);
    tightest.offer(when, bounds.mean(n), sum / n);
    const auto spent = static_cast<double>(evaluations);
    if (resolved && n > 1) tightest.offer(when + " evaluations", bounds.evaluations(n), spent);
    ++next;
  }
  tightest.add_steps(at.back());
}

std::vector<Row> check_line_search(const Problem& problem, const Settings& settings) {
  const auto [l0, l1] = *problem.smoothness();
  const double delta = start_delta(problem);
  const Backtracking how{.evaluations = 60};
  Tightest tightest;
  for (const double share : {1.0, 0.1}) {
    const double rho = share * l0 / l1, bounded = 1 / (l0 + rho * l1);
    for (const double off : {1000.0, 0.01}) {
      const double gamma = off * bounded, least = std::min(gamma, how.shrink * bounded);
      const SearchBounds bounds = {
          [=](int n) {
            return ggnc_bound({delta, least, rho, n});
          },
          [=](int n) { return 1 + 2.0 * n + std::log2(gamma / least); },
      };
      check_search(problem, settings, gamma, rho, how, bounds, tightest);
    }
  }
  return {tightest.row()};
}

std::vector<Row> check_smoothness_search(const Problem& problem, const Settings& settings) {
  const auto [l0, l1] = *problem.smoothness();
  const double delta = start_delta(problem), s = start_slope(problem);
  Tightest tightest;
  for (const double relax : {1.0, 0.5}) {
    const normball::Smoothness how{.relax = relax, .evaluations = 60};
    for (const double off : {1000.0, 0.01}) {
      const double rho = l0 / l1, gamma = off / (2 * l0);
      const double first = 0.5 * s / (gamma * std::min(rho, s));  // of L0, and of L1 s
      const double a = std::max(first, 2 * (l0 + l1 * s)), b = a / s;
      const SearchBounds bounds = {
          [=](int n) { return std::sqrt(2 * a * delta / n) + 2 * b * delta / n; },
          [=](int n) { return 1 + n * (1 - 2 * std::log2(relax)) + 2 * std::log2(a / first); },
      };
      check_search(problem, settings, gamma, rho, how, bounds, tightest);
    }
  }
  return {tightest.row()};
}

constexpr std::array<Statement, 2> table = {{
    {"line-search", "none: docs/lab.md",
     "GGNC with a line search from any γ: mean ‖∇f(x^k)‖* ≤ √(2Δ/(gn)) + 2Δ/(gρn) with g = min{γ, "
     "1/(2(L0+ρL1))}",
     Kind::Deterministic, has_smoothness, check_line_search},
    {"smoothness-search", "none: docs/lab.md",
     "a line search that estimates (L0,L1): mean ‖∇f(x^k)‖* ≤ √(2aΔ/n) + 2bΔ/n with a = max{first "
     "L0, 2(L0+L1s_1)}, b = a/s_1",
     Kind::Deterministic, has_smoothness, check_smoothness_search},
}};

}  // namespace

std::span<const Statement> search_statements() { return table; }

}  // namespace normball::lab
