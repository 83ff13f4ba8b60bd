// The statements about rules that find their stepsize. Derivations: docs/lab.md, section 9.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "lab/bounds.h"
#include "lab/statement_tools.h"
#include "normball/base/error.h"

namespace normball::lab {
namespace {

// What a step can lose to curvature, by the problem's constants: f(x − tv) <= f(x) − ts + Kt²/2, or
// −ts/2 instead of −ts where only (L0, L1) are known and t <= 1/L1.
struct Curvature {
  double k = 0;
  bool generalized = false;
};

// A rule's run of n steps: Σ (c_i s_i)², Σ c_i², the largest c, and c_1 s_1.
struct Sums {
  double squares = 0, weights = 0, largest = 0, first = 0;

  void add(double c, double s) {
    if (weights == 0) first = c * s;
    squares += c * s * (c * s);
    weights += c * c;
    largest = std::max(largest, c);
  }
  double measured() const { return std::sqrt(squares / weights); }  // >= min s
  double bound(double delta, const Curvature& curvature, double b0) const {
    const double scale = curvature.k * largest * largest;
    const double start = std::hypot(b0, first);
    return adaptive_bound(delta, scale, b0, start, curvature.generalized) / std::sqrt(weights);
  }
};

// The setting of one run.
struct Adaptive {
  const Problem& problem;
  const Settings& settings;
  Method method;
  Point start;
  double delta = 0;
  Curvature curvature;
  double beta = 0;  // 0: unconstrained
  std::string setting = {};

  double quantity(const Run& run) const { return beta > 0 ? run.wolfe_gap(beta) : run.dual_norm(); }
};

void take_step(Run& run, const Settings& settings) {
  if (settings.forget) run.forget();
  run.step();
}

// √(Σ c_k² s_k² / Σ c_k²) at every horizon, where weight(run) is c_k.
template <class Weight>
void check_sums(const Adaptive& a, double b0, const Weight& weight, Tightest& tightest) {
  const auto at = horizons(a.settings);
  Run run(a.problem, a.method, a.start);
  Sums sums;
  size_t next = 0;
  for (int n = 1; n <= at.back(); ++n) {
    try {
      take_step(run, a.settings);
    } catch (const NonFiniteError&) {  // of a rule that was broken
      return tightest.offer(a.setting + " diverged", 1, std::numeric_limits<double>::infinity());
    }
    sums.add(weight(run), std::max(0.0, a.quantity(run)));
    if (n != at[next]) continue;
    tightest.offer(a.setting + " n=" + std::to_string(n), sums.bound(a.delta, a.curvature, b0),
                   sums.measured());
    ++next;
  }
  tightest.add_steps(at.back());
}

Method with_stepsize(const StepRule& rule, double lr) {
  return make_method("unconstrained_scion", {.lr = lr, .stepsize = rule});
}

// Scion on the ball of that radius; the stepsize's own number is in units of the ball.
Method in_ball(const Space& space, const StepRule& rule, double lr, double beta) {
  Method method = make_method("scion", {.lr = lr, .stepsize = rule});
  if (space.equal_radii()) method.radius = beta;
  return method;
}

std::vector<Row> check_adagrad(const Problem& problem, const Settings& settings,
                               const Curvature& curvature, const std::array<double, 3>& lengths) {
  Tightest tightest;
  for (const double c : lengths) {
    for (const double b0 : {0.0, start_slope(problem)}) {
      const Method method = with_stepsize(AdaGrad{b0}, settings.stepsize_factor * c);
      check_sums(
          {problem, settings, method, problem.start(), start_delta(problem), curvature, 0,
           describe({{"c", c}, {"b0", b0}})},
          c * b0, [c](const Run&) { return c; }, tightest);
    }
  }
  return {tightest.row()};
}

std::array<double, 3> smooth_lengths(const Problem& problem) {
  const double unit = std::sqrt(2 * start_delta(problem) / *problem.lipschitz());
  return {unit, 0.1 * unit, 0.01 * unit};
}

std::vector<Row> check_adagrad_smooth(const Problem& problem, const Settings& settings) {
  return check_adagrad(problem, settings, {*problem.lipschitz()}, smooth_lengths(problem));
}

std::vector<Row> check_adagrad_general(const Problem& problem, const Settings& settings) {
  const auto [l0, l1] = *problem.smoothness();
  return check_adagrad(problem, settings, {l0, true}, {1 / l1, 0.1 / l1, 0.01 / l1});
}

std::vector<Row> check_adagrad_ball(const Problem& problem, const Settings& settings) {
  const Space& space = problem.space();
  const double beta = ball_radius(space), l = *problem.lipschitz_on_ball(beta);
  const Point start = on_sphere(space, beta);
  const double delta = problem.value(start) - constrained_infimum(problem, beta);
  Tightest tightest;
  for (const double c : {1.0, 0.1, 0.01}) {
    const double lr = std::min(1.0, settings.stepsize_factor * c);
    check_sums(
        {problem,
         settings,
         in_ball(space, AdaGrad{}, lr, beta),
         start,
         delta,
         {4 * beta * beta * l},
         beta,
         describe({{"c", c}})},
        0, [c](const Run&) { return c; }, tightest);
  }
  return {tightest.row()};
}

// c_k is computed here from the iterates.
std::vector<Row> check_distance(const Problem& problem, const Settings& settings,
                                const Curvature& curvature, double most, double unit) {
  Tightest tightest;
  for (const double share : {0.1, 1e-4}) {
    const double first = share * unit;
    double c = first;
    const Point start = problem.start();
    const auto weight = [&](const Run& run) {
      return c = std::min(most, std::max(c, problem.space().norm(difference(run.before(), start))));
    };
    const Method method = with_stepsize(DistanceAware{first, most}, settings.stepsize_factor);
    check_sums({problem, settings, method, start, start_delta(problem), curvature, 0,
                describe({{"first", first}})},
               0, weight, tightest);
  }
  return {tightest.row()};
}

std::vector<Row> check_distance_smooth(const Problem& problem, const Settings& settings) {
  return check_distance(problem, settings, {*problem.lipschitz()},
                        std::numeric_limits<double>::infinity(), smooth_lengths(problem)[0]);
}

std::vector<Row> check_distance_general(const Problem& problem, const Settings& settings) {
  const auto [l0, l1] = *problem.smoothness();
  return check_distance(problem, settings, {l0, true}, 1 / l1, 1 / l1);
}

// The mean of t_k s_k, steps that are at most lr, against Δ/n + K lr²/2, or 4/3 of it for (L0, L1).
template <class Gain>
void check_capped(const Adaptive& a, double lr, const Gain& gain, Tightest& tightest) {
  const auto at = horizons(a.settings);
  Run run(a.problem, a.method, a.start);
  check_means(
      run, at, gain,
      [&](int n) {
        return momo_bound({a.delta, lr, 1, n}, a.curvature.k, a.curvature.generalized);
      },
      a.setting, tightest);
}

// Any lower bound will do, but rounding must not take the loss below it.
double below(double infimum) { return infimum - 1e-9 * (1 + std::abs(infimum)); }

void check_momo(const Adaptive& a, double lr, double f_star, Tightest& tightest) {
  const auto gain = [&](const Run& run) {
    return std::min(lr * a.quantity(run), run.value_before() - f_star);
  };
  check_capped(a, lr, gain, tightest);
}

std::vector<Row> check_momo_free(const Problem& problem, const Settings& settings,
                                 const Curvature& curvature, const std::array<double, 3>& lengths) {
  Tightest tightest;
  const double f_star = below(problem.infimum());
  for (const double lr : lengths) {
    const Method method = with_stepsize(Momo{f_star}, settings.stepsize_factor * lr);
    check_momo({problem, settings, method, problem.start(), start_delta(problem), curvature, 0,
                describe({{"lr", lr}})},
               lr, f_star, tightest);
  }
  return {tightest.row()};
}

std::vector<Row> check_momo_smooth(const Problem& problem, const Settings& settings) {
  return check_momo_free(problem, settings, {*problem.lipschitz()}, smooth_lengths(problem));
}

std::vector<Row> check_momo_general(const Problem& problem, const Settings& settings) {
  const auto [l0, l1] = *problem.smoothness();
  return check_momo_free(problem, settings, {l0, true}, {0.5 / l1, 0.05 / l1, 0.005 / l1});
}

std::vector<Row> check_momo_ball(const Problem& problem, const Settings& settings) {
  const Space& space = problem.space();
  const double beta = ball_radius(space), l = *problem.lipschitz_on_ball(beta);
  const Point start = on_sphere(space, beta);
  const double f_star = below(constrained_infimum(problem, beta));
  Tightest tightest;
  for (const double lr : {1.0, 0.1, 0.01}) {
    const double used = std::min(1.0, settings.stepsize_factor * lr);
    check_momo({problem,
                settings,
                in_ball(space, Momo{f_star}, used, beta),
                start,
                problem.value(start) - f_star,
                {4 * beta * beta * l},
                beta,
                describe({{"lr", lr}})},
               lr, f_star, tightest);
  }
  return {tightest.row()};
}

// ρ_k from a sorted copy of the past.
void check_automatic(const Adaptive& a, double lr, double quantile, Tightest& tightest) {
  std::vector<double> past;
  const auto gain = [&](const Run& run) {
    const double s = a.quantity(run);
    const auto length = std::min(past.size(), AutoClipped::window);
    std::vector<double> last(past.end() - static_cast<std::ptrdiff_t>(length), past.end());
    std::ranges::sort(last);
    const auto rank = std::ceil(quantile * static_cast<double>(length) - 1e-9);
    const double rho = last.empty() ? s : last[static_cast<size_t>(rank) - 1];
    past.push_back(s);
    return lr * std::min(s, s * s / rho);
  };
  check_capped(a, lr, gain, tightest);
}

std::vector<Row> check_automatic_free(const Problem& problem, const Settings& settings,
                                      const Curvature& curvature,
                                      const std::array<double, 3>& lengths) {
  Tightest tightest;
  for (const double lr : lengths) {
    for (const double quantile : {0.5, 0.9}) {
      const Method method = with_stepsize(AutoClipped{quantile}, settings.stepsize_factor * lr);
      check_automatic({problem, settings, method, problem.start(), start_delta(problem), curvature,
                       0, describe({{"lr", lr}, {"quantile", quantile}})},
                      lr, quantile, tightest);
    }
  }
  return {tightest.row()};
}

std::vector<Row> check_automatic_smooth(const Problem& problem, const Settings& settings) {
  return check_automatic_free(problem, settings, {*problem.lipschitz()}, smooth_lengths(problem));
}

std::vector<Row> check_automatic_general(const Problem& problem, const Settings& settings) {
  const auto [l0, l1] = *problem.smoothness();
  return check_automatic_free(problem, settings, {l0, true}, {0.5 / l1, 0.05 / l1, 0.005 / l1});
}

constexpr std::array<Statement, 10> table = {{
    {"adagrad-smooth", "none: docs/lab.md",
     "AdaGrad: √(mean ‖∇f(x^k)‖*²) ≤ B/(c√n), f L-smooth, any c", Kind::Deterministic,
     has_lipschitz, check_adagrad_smooth},
    {"adagrad", "none: docs/lab.md",
     "AdaGrad: √(mean ‖∇f(x^k)‖*²) ≤ B/(c√n), f (L0,L1)-smooth, c ≤ 1/L1", Kind::Deterministic,
     has_smoothness, check_adagrad_general},
    {"adagrad-ball", "none: docs/lab.md",
     "AdaGrad in the ball: √(mean gap²) ≤ B/(c√n), f L-smooth there, c ≤ 1", Kind::Deterministic,
     has_ball_lipschitz, check_adagrad_ball},
    {"distance-smooth", "none: docs/lab.md",
     "distance-aware: √(Σc_k²‖∇f(x^k)‖*²/Σc_k²) ≤ B/√(Σc_k²), f L-smooth", Kind::Deterministic,
     has_lipschitz, check_distance_smooth},
    {"distance", "none: docs/lab.md",
     "distance-aware: √(Σc_k²‖∇f(x^k)‖*²/Σc_k²) ≤ B/√(Σc_k²), f (L0,L1)-smooth, c_k ≤ 1/L1",
     Kind::Deterministic, has_smoothness, check_distance_general},
    {"momo-smooth", "none: docs/lab.md",
     "Momo: mean min{lr‖∇f(x^k)‖*, f(x^k) − f*} ≤ Δ/n + L lr²/2, f L-smooth", Kind::Deterministic,
     has_lipschitz, check_momo_smooth},
    {"momo", "none: docs/lab.md",
     "Momo: mean min{lr‖∇f(x^k)‖*, f(x^k) − f*} ≤ (4/3)(Δ/n + L0 lr²/2), f (L0,L1)-smooth, lr ≤ "
     "1/(2L1)",
     Kind::Deterministic, has_smoothness, check_momo_general},
    {"momo-ball", "none: docs/lab.md",
     "Momo in the ball: mean min{lr gap, f(x^k) − f*} ≤ Δ/n + 2β²L lr², f L-smooth there, lr ≤ 1",
     Kind::Deterministic, has_ball_lipschitz, check_momo_ball},
    {"auto-clipped-smooth", "none: docs/lab.md",
     "clipping at a running quantile ρ_k: mean min{s_k, s_k²/ρ_k} ≤ Δ/(lr n) + L lr/2, f L-smooth",
     Kind::Deterministic, has_lipschitz, check_automatic_smooth},
    {"auto-clipped", "none: docs/lab.md",
     "clipping at a running quantile ρ_k: mean min{s_k, s_k²/ρ_k} ≤ (4/3)(Δ/(lr n) + L0 lr/2), f "
     "(L0,L1)-smooth, lr ≤ 1/(2L1)",
     Kind::Deterministic, has_smoothness, check_automatic_general},
}};

}  // namespace

std::span<const Statement> stepsize_statements() { return table; }

}  // namespace normball::lab
