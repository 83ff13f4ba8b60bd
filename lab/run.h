// One run of one method on one problem: normball::Optimizer does the steps, this class feeds it
// gradients and keeps what the statements look at.
#pragma once

#include <memory>
#include <vector>

#include "lab/oracle.h"
#include "lab/problem.h"
#include "normball/optimizer.h"

namespace normball::lab {

class Run {
 public:
  // With the exact gradient.
  Run(const Problem& problem, const Method& method, Point start);
  Run(const Problem& problem, const Method& method, Point start, std::vector<Layer> layers);
  // With an oracle's gradients; the seed decides all of them.
  Run(const Problem& problem, const Oracle& oracle, const Method& method, Point start,
      std::uint64_t seed);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void step();
  void forget();  // what a rule with a memory has seen

  // About the last step, from x = x^k to x^{k+1}:
  const StepReport& report() const { return *report_; }
  const Point& before() const { return before_; }
  const Point& after() const { return x_; }
  const Point& gradient() const { return gradient_; }  // ∇f(x^k), exact
  double dual_norm() const;                            // of it, in the space's norm
  double wolfe_gap(double beta) const;  // max over ‖u‖ <= beta of <∇f, x^k − u>
  double value_before() const { return problem_.value(before_); }
  double value_after() const { return problem_.value(x_); }
  Point momentum_error();  // λ^k = d^k − ∇f(x^k)

 private:
  const Problem& problem_;
  const Oracle* oracle_ = nullptr;
  Random random_;
  Point x_, before_, gradient_, estimate_;
  Optimizer<double> optimizer_;
  std::vector<Parameter<double>> parameters_;
  const StepReport* report_ = nullptr;
};

// The radius of the ball of the constrained statements: layers with radii of their own have 1.
double ball_radius(const Space& space);

// Algorithm 2 on the ball of radius beta. Where the layers have radii of their own it is Algorithm
// 4 (beta must be 1 there), the same method in the product norm.
Method short_step(const Space& space, double gamma, double rho, double beta,
                  ShortStep::Variant variant, double alpha = 1);

}  // namespace normball::lab
