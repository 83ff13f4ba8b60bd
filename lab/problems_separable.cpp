// f(x) = Σ c_i φ(x_ij − t_ij) with φ'' <= k0 + k1 |φ'|, so that in every norm of the library
//   ‖∇²f‖ <= k0 D(c) + k1 max_l unit(l) ‖∇f‖*      (docs/lab.md, section 2).
#include <algorithm>
#include <cmath>

#include "lab/problem.h"

namespace normball::lab {
namespace {

struct Scalar {
  std::string_view name;
  std::string_view formula;
  double (*value)(double);
  double (*slope)(double);
  double (*curvature_within)(double);  // max |φ''| over |z| <= r
  double k0, k1;                       // k1 = 0: L-smooth
  bool convex;
  double farthest;  // of the targets from the start
};

// exp(z) − 1 − z without cancellation.
double exp_excess(double z) {
  if (std::abs(z) > 0.5) return std::expm1(z) - z;
  double sum = 0;
  for (int k = 20; k >= 3; --k) sum = (1 + sum) * z / k;
  return z * z / 2 * (1 + sum);
}

double half_sinh_squared(double z) { return 2 * std::sinh(z / 2) * std::sinh(z / 2); }

constexpr Scalar cosh_scalar{"cosh",
                             "Σ c_i (cosh(x_ij − t_ij) − 1)",
                             half_sinh_squared,
                             [](double z) { return std::sinh(z); },
                             [](double r) { return std::cosh(r); },
                             1,
                             1,
                             true,
                             4};
constexpr Scalar exp_scalar{"exp",
                            "Σ c_i (exp(x_ij − t_ij) − 1 − (x_ij − t_ij))",
                            exp_excess,
                            [](double z) { return std::expm1(z); },
                            [](double r) { return std::exp(r); },
                            1,
                            1,
                            true,
                            3};
constexpr Scalar quartic_scalar{// 3z² <= 4 + |z|³
                                "quartic",
                                "Σ c_i (x_ij − t_ij)⁴ / 4",
                                [](double z) { return z * z * z * z / 4; },
                                [](double z) { return z * z * z; },
                                [](double r) { return 3 * r * r; },
                                4,
                                1,
                                true,
                                3};
constexpr Scalar cauchy_scalar{"cauchy",
                               "Σ c_i log(1 + (x_ij − t_ij)²) / 2",
                               [](double z) { return std::log1p(z * z) / 2; },
                               [](double z) { return z / (1 + z * z); },
                               [](double) { return 1.0; },
                               1,
                               0,
                               false,
                               3};

constexpr Scalar log_cosh_scalar{
    "log_cosh", "Σ c_i log cosh(x_ij − t_ij)",
    // log cosh z = |z| + log(1 + e^{−2|z|}) − log 2 = log(1 + (cosh z − 1)), which suits small z
    [](double z) {
      return std::abs(z) < 1 ? std::log1p(half_sinh_squared(z))
                             : std::abs(z) + std::log1p(std::exp(-2 * std::abs(z))) - std::log(2.0);
    },
    [](double z) { return std::tanh(z); }, [](double) { return 1.0; }, 1, 0, true, 3};
constexpr Scalar arc_scalar{"arc",
                            "Σ c_i (√(1 + (x_ij − t_ij)²) − 1)",
                            [](double z) { return z * z / (1 + std::hypot(1.0, z)); },
                            [](double z) { return z / std::hypot(1.0, z); },
                            [](double) { return 1.0; },
                            1,
                            0,
                            true,
                            3};

class Separable : public Problem {
 public:
  Separable(const Space& space, const Scalar& scalar)
      : Problem(space), scalar_(scalar), targets_(space.size()), weights_(space.size()) {
    Random random(1);
    for (double& t : targets_) t = scalar.farthest * (2 * random.uniform() - 1);
    for (size_t l = 0; l < space.layers().size(); ++l) {
      const Shape& shape = space.layers()[l].shape;
      std::vector<double> c;
      for (Index i = 0; i < shape.rows; ++i) {
        const auto last = static_cast<double>(std::max<Index>(1, shape.rows - 1));
        c.push_back(std::pow(10, -static_cast<double>(i) / last));
        for (Index j = 0; j < shape.cols; ++j) {
          weights_[space.offset(l) + static_cast<size_t>(i * shape.cols + j)] = c.back();
        }
      }
      curvatures_.push_back(space.unit(l) * space.unit(l) *
                            diagonal_curvature(space.geometry(l), shape, c));
    }
  }

  std::string name() const override { return std::string(scalar_.name); }
  std::string formula() const override { return std::string(scalar_.formula); }
  bool convex() const override { return scalar_.convex; }

  double value(const Point& x) const override {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += weights_[i] * scalar_.value(x[i] - targets_[i]);
    return sum;
  }
  void gradient(const Point& x, Point& g) const override {
    for (size_t i = 0; i < x.size(); ++i) g[i] = weights_[i] * scalar_.slope(x[i] - targets_[i]);
  }

  std::optional<double> lipschitz() const override {
    if (scalar_.k1 != 0) return {};
    return scalar_.k0 * total_curvature();
  }
  // |x_ij| is at most the layer's geometry norm, in all of them.
  std::optional<double> lipschitz_on_ball(double beta) const override {
    double sum = 0;
    for (size_t l = 0; l < curvatures_.size(); ++l) {
      sum += curvatures_[l] * scalar_.curvature_within(scalar_.farthest + beta * space().unit(l));
    }
    return sum;
  }
  std::optional<Smoothness> smoothness() const override {
    if (scalar_.k1 == 0) return Problem::smoothness();
    return first_order(scalar_.k0 * total_curvature(), scalar_.k1 * space().largest_unit());
  }

 private:
  double total_curvature() const {
    double sum = 0;
    for (const double c : curvatures_) sum += c;
    return sum;
  }

  Scalar scalar_;
  Point targets_, weights_;
  std::vector<double> curvatures_;
};

}  // namespace

ProblemPtr make_cosh(const Space& space) { return std::make_unique<Separable>(space, cosh_scalar); }
ProblemPtr make_exp(const Space& space) { return std::make_unique<Separable>(space, exp_scalar); }
ProblemPtr make_quartic(const Space& space) {
  return std::make_unique<Separable>(space, quartic_scalar);
}
ProblemPtr make_cauchy(const Space& space) {
  return std::make_unique<Separable>(space, cauchy_scalar);
}
ProblemPtr make_log_cosh(const Space& space) {
  return std::make_unique<Separable>(space, log_cosh_scalar);
}
ProblemPtr make_arc(const Space& space) { return std::make_unique<Separable>(space, arc_scalar); }

}  // namespace normball::lab
