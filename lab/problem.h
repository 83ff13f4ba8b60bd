// Test problems with analytic gradients, a lower bound of the infimum, and proved constants in the
// norm of the space they live in. docs/lab.md derives every constant.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lab/space.h"

namespace normball::lab {

// ‖∇f(x) − ∇f(y)‖* <= (l0 + l1 ‖∇f(x)‖*) ‖x − y‖  whenever ‖x − y‖ <= 1 / l1.
struct Smoothness {
  double l0 = 0;
  double l1 = 0;
};

// From the Hessian form ‖∇²f‖ <= k0 + k1 ‖∇f‖* to the first-order one: (k0, k1) / ln 2.
Smoothness first_order(double k0, double k1);

class Problem {
 public:
  explicit Problem(Space space) : space_(std::move(space)) {}
  virtual ~Problem() = default;

  const Space& space() const { return space_; }
  virtual std::string name() const = 0;
  virtual std::string formula() const = 0;

  virtual double value(const Point& x) const = 0;
  virtual void gradient(const Point& x, Point& g) const = 0;
  virtual double infimum() const { return 0; }  // never above the true one
  virtual Point start() const { return Point(space_.size()); }
  // Points that together see all regimes of the function.
  virtual Point random_point(Random& random) const;
  virtual bool convex() const { return true; }

  // L on the whole space, if there is one.
  virtual std::optional<double> lipschitz() const { return {}; }
  // L on the ball of radius beta around 0 in the space's norm, if known.
  virtual std::optional<double> lipschitz_on_ball(double) const { return lipschitz(); }
  // Unless a problem says otherwise: (L, any L1 > 0), chosen so that clipping acts at the start.
  virtual std::optional<Smoothness> smoothness() const;

  // Finite sums: ∇f is the mean of the terms' gradients, with E‖term − ∇f‖₂² <= variance.
  virtual Index terms() const { return 0; }
  virtual void term_gradient(Index, const Point&, Point&) const {}
  virtual double term_variance() const { return 0; }

 private:
  Space space_;
};

using ProblemPtr = std::unique_ptr<const Problem>;

struct ProblemInfo {
  std::string_view name;
  std::string_view about;
  ProblemPtr (*make)(const Space& space);
};

std::span<const ProblemInfo> problems();
ProblemPtr make_problem(std::string_view name, const Space& space);

// factor · f, in the same space. Rules with absolute thresholds depend on the scale of f.
ProblemPtr scaled(ProblemPtr problem, double factor);

// Below min f over ‖x‖ <= beta: the best of the infimum and, for convex f, of f(x) − Wolfe gap
// along a run of classical Frank-Wolfe.
double constrained_infimum(const Problem& problem, double beta);

// Which statements apply to a problem.
inline bool has_smoothness(const Problem& problem) { return problem.smoothness().has_value(); }
inline bool has_lipschitz(const Problem& problem) { return problem.lipschitz().has_value(); }
inline bool has_ball_lipschitz(const Problem& problem) {
  return problem.lipschitz_on_ball(1).has_value();
}

// Their constructors.
ProblemPtr make_cosh(const Space& space);
ProblemPtr make_exp(const Space& space);
ProblemPtr make_quartic(const Space& space);
ProblemPtr make_cauchy(const Space& space);
ProblemPtr make_log_cosh(const Space& space);
ProblemPtr make_arc(const Space& space);
ProblemPtr make_quadratic(const Space& space);
ProblemPtr make_power(const Space& space);
ProblemPtr make_matrix_cosh(const Space& space);
ProblemPtr make_logistic(const Space& space);
ProblemPtr make_factorization(const Space& space);
// A worst case in one dimension: every step of length slope/L finds the slope unchanged, `steps`
// times. On the ball of radius beta if given, else on the line.
ProblemPtr make_zigzag(int steps, std::optional<double> beta = {});

}  // namespace normball::lab
