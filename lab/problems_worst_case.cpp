// The exact worst case of gradient descent with the step 1/L, L = 1: between iterates at integers
// the slope dips from 1 to 1/2 and comes back, so a step costs only 3/4 and finds the slope 1
// again. After `steps` of them f falls by 1/2 to its minimum and is flat.
#include <cmath>

#include "lab/problem.h"

namespace normball::lab {
namespace {

class Zigzag : public Problem {
 public:
  Zigzag(int steps, std::optional<double> beta)
      : Problem({"line", {{.name = "x", .shape = {.rows = 1, .cols = 1}, .norm = Euclidean{}}}}),
        steps_(steps),
        origin_(beta ? *beta - steps : 0) {}

  std::string name() const override { return "zigzag"; }
  std::string formula() const override { return "f' between 1/2 and 1, f'' = ±1, then a minimum"; }
  double value(const Point& x) const override {
    const double y = x[0] - origin_;
    if (y < 0) return y > -1 ? y + y * y / 2 : -0.5;
    const double whole = std::floor(y), t = y - whole;  // slope 1 − min(t, 1 − t)
    const double part = t <= 0.5 ? t - t * t / 2 : 0.75 - (1 - t) + (1 - t) * (1 - t) / 2;
    return 0.75 * whole + part;
  }
  void gradient(const Point& x, Point& g) const override {
    const double y = x[0] - origin_;
    g[0] = y < 0 ? std::max(0.0, 1 + y) : 1 - std::abs(y - std::round(y));
  }
  double infimum() const override { return -0.5; }
  Point start() const override { return {origin_ + steps_ - 1}; }
  Point random_point(Random& random) const override {
    return {origin_ + (steps_ + 2) * random.uniform() - 2};
  }
  bool convex() const override { return false; }
  std::optional<double> lipschitz() const override { return 1; }
  // L1 small enough for clipping never to act: rho = L0 / L1 is far above every slope.
  std::optional<Smoothness> smoothness() const override { return Smoothness{1, 1e-9}; }

 private:
  int steps_;
  double origin_;
};

}  // namespace

ProblemPtr make_zigzag(int steps, std::optional<double> beta) {
  return std::make_unique<Zigzag>(steps, beta);
}

}  // namespace normball::lab
