// Stochastic gradients: unbiased, with a known bound of E‖∇f(x, ξ) − ∇f(x)‖₂².
#pragma once

#include "lab/problem.h"

namespace normball::lab {

class Oracle {
 public:
  virtual ~Oracle() = default;
  // g holds ∇f(x) and becomes ∇f(x, ξ).
  virtual void perturb(const Point& x, Random& random, Point& g) const = 0;
  virtual double variance() const = 0;  // σ²
  virtual std::string name() const = 0;
};

// ∇f(x) + N(0, σ²/d I): the variance is exactly σ².
class GaussianOracle : public Oracle {
 public:
  GaussianOracle(size_t size, double sigma);
  void perturb(const Point& x, Random& random, Point& g) const override;
  double variance() const override { return sigma_ * sigma_; }
  std::string name() const override { return "Gaussian noise"; }

 private:
  double sigma_, each_;
};

// The mean over `batch` terms of a finite sum, drawn with replacement.
class SampledOracle : public Oracle {
 public:
  SampledOracle(const Problem& problem, Index batch);
  void perturb(const Point& x, Random& random, Point& g) const override;
  double variance() const override;
  std::string name() const override { return "sampled terms"; }

 private:
  const Problem& problem_;
  Index batch_;
};

}  // namespace normball::lab
