// Clipped singular values: descent with c L1 in place of L1. Derivation: docs/lab.md, section 3.
#include <algorithm>
#include <array>
#include <cmath>

#include "lab/run.h"
#include "lab/statement.h"
#include "lab/statement_tools.h"

namespace normball::lab {
namespace {

bool has_spectral_layer(const Problem& problem) {
  const Space& space = problem.space();
  for (size_t l = 0; l < space.layers().size(); ++l) {
    if (space.geometry(l) == Geometry::Operator) return problem.smoothness().has_value();
  }
  return false;
}

// (1 + √(1 + (k−1) share))/2, the largest of all layers.
double loss_of(const Space& space, double share) {
  double k = 1;
  for (size_t l = 0; l < space.layers().size(); ++l) {
    const Shape& shape = space.layers()[l].shape;
    if (space.geometry(l) != Geometry::Operator) continue;
    k = std::max(k, static_cast<double>(std::min(shape.rows, shape.cols)));
  }
  return (1 + std::sqrt(1 + (k - 1) * share)) / 2;
}

std::vector<Layer> with_solver(const Space& space, const ClippedPolar& solver) {
  std::vector<Layer> layers = space.layers();
  for (auto& layer : layers) {
    if (auto* spectral = std::get_if<Spectral>(&layer.norm)) spectral->solver = solver;
  }
  return layers;
}

// f(x^{k+1}) <= f(x^k) − step · s/2 with step = γη: the share of that decrease in the real one.
void check_run(const Problem& problem, const Method& method, const std::vector<Layer>& layers,
               Point start, int steps, const std::string& setting, Tightest& tightest) {
  Run run(problem, method, std::move(start), layers);
  double first = 0;
  for (int k = 0; k < steps; ++k) {
    run.step();
    tightest.add_steps(1);
    const StepReport& report = run.report();
    const double from = run.value_before(), to = run.value_after();
    const double allowance = rounding * std::max(std::abs(from), std::abs(to));
    const double wanted = report.gamma * report.eta * report.pairing / 2;
    const double got = from - to + allowance;
    if (!(wanted > 0 || got < 0)) return;
    tightest.offer(setting, 1, got > 0 && std::isfinite(got) ? wanted / got : 1e9);
    first = std::max(first, report.pairing);
    if (!(report.pairing > 1e-7 * first) || !std::isfinite(to)) return;
  }
}

// With share, under GGNC's rule.
std::vector<Row> check_clip_share(const Problem& problem, const Settings& settings) {
  const auto [l0, l1] = *problem.smoothness();
  Random random(17);
  Tightest tightest;
  for (const double share : {0.1, 1.0}) {
    const auto layers = with_solver(problem.space(), {.share = share});
    const double c = loss_of(problem.space(), share);
    for (const double size : {0.1, 1.0, 10.0}) {
      const double rho = size * l0 / l1, gamma = settings.stepsize_factor / (l0 + c * rho * l1);
      for (int start = 0; start < (settings.quick ? 2 : 20); ++start) {
        check_run(problem, ggnc(gamma * rho, rho), layers, problem.random_point(random), 500,
                  describe({{"share", share}, {"γ", gamma}, {"ρ", rho}}), tightest);
      }
    }
  }
  return {tightest.row()};
}

// With tau, where the layer's own threshold is all there is: x − γ clip(∇f), in units of the ball.
std::vector<Row> check_clip_tau(const Problem& problem, const Settings& settings) {
  const auto [l0, l1] = *problem.smoothness();
  Random random(19);
  Tightest tightest;
  const double c = loss_of(problem.space(), 1), unit = problem.space().unit(0);
  for (const double size : {0.1, 1.0, 10.0}) {
    const double tau = size * l0 / l1, gamma = settings.stepsize_factor / (l0 + c * tau * l1);
    const auto layers = with_solver(problem.space(), {.share = 0, .tau = tau / unit});
    for (int start = 0; start < (settings.quick ? 2 : 20); ++start) {
      check_run(problem, ucg(gamma * tau), layers, problem.random_point(random), 500,
                describe({{"γ", gamma}, {"τ", tau}}), tightest);
    }
  }
  return {tightest.row()};
}

bool is_one_spectral_layer(const Problem& problem) {
  return has_spectral_layer(problem) && problem.space().layers().size() == 1;
}

constexpr std::array<Statement, 2> table = {{
    {"clip-share", "none: docs/polar.md",
     "GGNC, singular values cut at a share of σ₁: f(x^{k+1}) ≤ f(x^k) − γηs/2 for γ ≤ 1/(L0+cρL1)",
     Kind::Deterministic, has_spectral_layer, check_clip_share},
    {"clip-tau", "none: docs/polar.md",
     "singular values cut at τ: f(x^{k+1}) ≤ f(x^k) − γ⟨∇f, clip(∇f)⟩/2 for γ ≤ 1/(L0+cτL1)",
     Kind::Deterministic, is_one_spectral_layer, check_clip_tau},
}};

}  // namespace

std::span<const Statement> clipped_statements() { return table; }

}  // namespace normball::lab
