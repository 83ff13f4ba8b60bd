#include "lab/picture.h"

#include <algorithm>
#include <cmath>

#include "lab/run.h"
#include "lab/statement.h"
#include "normball/base/error.h"

namespace normball::lab {
namespace {

// Up the hill from the problem's own start: 30 of GGNC's longest steps, or until the gradient is
// 10⁴ thresholds long. There the methods differ most.
Point far_start(const Problem& problem, const Smoothness& s) {
  Point x = problem.start(), g(x.size()), u;
  for (int k = 0; k < 30; ++k) {
    problem.gradient(x, g);
    if (problem.space().dual_norm(g) > 1e4 * s.l0 / s.l1) break;
    problem.space().ascent_direction(g, u);
    for (size_t i = 0; i < x.size(); ++i) x[i] += u[i] / (2 * s.l1);
  }
  return x;
}

std::vector<double> dual_norms(const Problem& problem, const Method& method, const Point& start,
                               int steps) {
  Run run(problem, method, start);
  std::vector<double> duals;
  for (int k = 0; k <= steps; ++k) {
    Point g(problem.space().size());
    problem.gradient(run.after(), g);
    if (!std::ranges::all_of(g, [](double v) { return std::abs(v) < 1e100; })) return {};
    run.step();
    duals.push_back(run.dual_norm());
  }
  return duals;
}

// Doubles the step until steepest descent diverges and keeps the best that did not.
std::pair<double, std::vector<double>> best_steepest(const Problem& problem, double lr,
                                                     const Point& start, int steps) {
  std::pair<double, std::vector<double>> best;
  for (;; lr *= 2) {
    auto duals = dual_norms(problem, sd(lr), start, steps);
    if (duals.empty()) return best;
    if (best.second.empty() || duals.back() < best.second.back()) best = {lr, std::move(duals)};
    if (lr > 1e9) return best;
  }
}

}  // namespace

Picture race(const Problem& problem, int steps) {
  const auto s = problem.smoothness();
  if (!s) {
    throw_invalid("lab", "'", problem.name(), "' has no constants (L0, L1) to choose steps from");
  }
  const double rho = s->l0 / s->l1, gamma = 1 / (2 * s->l0), lr = gamma * rho;
  const Point start = far_start(problem, *s);
  const auto clipped = dual_norms(problem, ggnc(lr, rho), start, steps);
  const auto normalized = dual_norms(problem, ucg(lr), start, steps);
  const double safe = 1 / (s->l0 + s->l1 * clipped.front());
  const auto [steepest_lr, steepest] = best_steepest(problem, safe, start, steps);

  Picture picture;
  picture.text = problem.formula() + "\nin the norm '" + problem.space().name() +
                 "': " + describe({{"L0", s->l0}, {"L1", s->l1}}) + "\n\n" +
                 "  SD    γ‖∇f‖*           " +
                 describe({{"γ", steepest_lr}, {"final ‖∇f‖*", steepest.back()}}) +
                 ", the best fixed γ found by doubling\n" + "  uCG   γρ               " +
                 describe({{"γρ", lr}, {"final ‖∇f‖*", normalized.back()}}) + ", floor by theory " +
                 describe({{"2L0γρ", 2 * s->l0 * lr}}) + "\n" + "  GGNC  γ min(ρ, ‖∇f‖*)  " +
                 describe({{"γρ", lr}, {"ρ", rho}, {"final ‖∇f‖*", clipped.back()}}) + "\n";
  picture.figure = {.title = "Steepest, normalized, clipped",
                    .subtitle = problem.formula() + ", norm '" + problem.space().name() + "'",
                    .x_label = "step",
                    .y_label = "dual norm of the gradient",
                    .curves = {{"SD (best fixed step)", steepest, 35, "#b8479a", 4},
                               {"uCG (normalized)", normalized, 33, "#d97700", 2},
                               {"GGNC (clipped)", clipped, 36, "#0072b2", 0}}};
  return picture;
}

}  // namespace normball::lab
