#include "lab/problem.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "lab/run.h"
#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball::lab {
namespace {

constexpr std::array<ProblemInfo, 11> registry = {{
    {"quadratic", "coupled rows, condition number 10; L-smooth", make_quadratic},
    {"cauchy", "log(1+z²)/2 summed: nonconvex and L-smooth", make_cauchy},
    {"log_cosh", "log cosh summed: L-smooth, linear growth", make_log_cosh},
    {"arc", "√(1+z²) summed: L-smooth, linear growth", make_arc},
    {"logistic", "regularized logistic regression on generated data; L-smooth, a finite sum",
     make_logistic},
    {"cosh", "cosh summed over entries: (L0,L1)-smooth only", make_cosh},
    {"exp", "exp(z)−z summed over entries: (L0,L1)-smooth only, one-sided", make_exp},
    {"quartic", "‖z‖₄⁴/4: polynomial growth, (L0,L1)-smooth only", make_quartic},
    {"power", "‖z‖₂⁴/4: polynomial growth, (L0,L1)-smooth only", make_power},
    {"matrix_cosh", "cosh summed over singular values: (L0,L1)-smooth only", make_matrix_cosh},
    {"factorization", "‖UUᵀ−M‖²/4: nonconvex, without constants", make_factorization},
}};

constexpr auto registry_names = [] {
  std::array<std::string_view, registry.size()> names;
  std::ranges::transform(registry, names.begin(), &ProblemInfo::name);
  return names;
}();

class Scaled : public Problem {
 public:
  Scaled(ProblemPtr problem, double factor)
      : Problem(problem->space()), inner_(std::move(problem)), factor_(factor) {}

  std::string name() const override { return inner_->name(); }
  std::string formula() const override {
    return number_text(factor_) + " · (" + inner_->formula() + ")";
  }
  double value(const Point& x) const override { return factor_ * inner_->value(x); }
  void gradient(const Point& x, Point& g) const override {
    inner_->gradient(x, g);
    for (double& v : g) v *= factor_;
  }
  double infimum() const override { return factor_ * inner_->infimum(); }
  Point start() const override { return inner_->start(); }
  Point random_point(Random& random) const override { return inner_->random_point(random); }
  bool convex() const override { return inner_->convex(); }
  std::optional<double> lipschitz() const override { return times(inner_->lipschitz()); }
  std::optional<double> lipschitz_on_ball(double beta) const override {
    return times(inner_->lipschitz_on_ball(beta));
  }
  std::optional<Smoothness> smoothness() const override {
    const auto s = inner_->smoothness();
    return s ? std::optional(Smoothness{factor_ * s->l0, s->l1}) : s;
  }
  Index terms() const override { return inner_->terms(); }
  void term_gradient(Index i, const Point& x, Point& g) const override {
    inner_->term_gradient(i, x, g);
    for (double& v : g) v *= factor_;
  }
  double term_variance() const override { return factor_ * factor_ * inner_->term_variance(); }

 private:
  std::optional<double> times(std::optional<double> value) const {
    return value ? std::optional(factor_ * *value) : value;
  }

  ProblemPtr inner_;
  double factor_;
};

}  // namespace

Smoothness first_order(double k0, double k1) {
  return {k0 / std::numbers::ln2, k1 / std::numbers::ln2};
}

Point Problem::random_point(Random& random) const {
  Point x = start();
  const double spread = 2 * random.uniform();
  for (double& v : x) v += spread * random.normal();
  return x;
}

std::optional<Smoothness> Problem::smoothness() const {
  const auto l = lipschitz();
  if (!l) return {};
  Point g(space_.size());
  gradient(start(), g);
  return Smoothness{*l, 8 * *l / space_.dual_norm(g)};
}

std::span<const ProblemInfo> problems() { return registry; }

ProblemPtr make_problem(std::string_view name, const Space& space) {
  const auto found = std::ranges::find(registry, name, &ProblemInfo::name);
  if (found == registry.end()) {
    throw_invalid("lab", unknown_name("problem", name, registry_names));
  }
  return found->make(space);
}

ProblemPtr scaled(ProblemPtr problem, double factor) {
  return std::make_unique<Scaled>(std::move(problem), factor);
}

double constrained_infimum(const Problem& problem, double beta) {
  double best = problem.infimum();
  if (!problem.convex()) return best;
  // A fresh space with the radii times beta: the unit ball of classical Frank-Wolfe.
  auto layers = problem.space().layers();
  for (auto& layer : layers) layer.radius *= beta;
  Run run(problem, cg(), Point(problem.space().size()), layers);
  for (int k = 0; k < 2000; ++k) {
    run.step();
    best = std::max(best, run.value_before() - run.report().wolfe_gap);
  }
  return best;
}

}  // namespace normball::lab
