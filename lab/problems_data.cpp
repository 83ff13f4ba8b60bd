// Logistic regression on generated data, and a symmetric matrix factorization.
#include <cmath>

#include "lab/problem.h"
#include "lab/run.h"

namespace normball::lab {
namespace {

double log_one_plus_exp(double z) {
  return z > 0 ? z + std::log1p(std::exp(-z)) : std::log1p(std::exp(z));
}

// (1/N) Σ log(1 + exp(−<A_i, x>)) + μ‖x‖²/2, with the labels' signs inside A_i.
class Logistic : public Problem {
 public:
  explicit Logistic(const Space& space) : Problem(space), start_(space.size()) {
    Random random(4);
    Point truth(space.size());
    for (double& v : truth) v = random.normal();
    const double scale = 1 / std::sqrt(static_cast<double>(space.size()));
    for (Index i = 0; i < samples; ++i) {
      Point a(space.size());
      for (double& v : a) v = random.normal();
      const double score = scale * inner(a, truth) + 0.5 * random.normal();
      for (double& v : a) v *= score < 0 ? -1 : 1;
      data_.push_back(std::move(a));
    }
    for (double& v : start_) v = -2 * scale * random.normal();
    find_infimum();
  }

  std::string name() const override { return "logistic"; }
  std::string formula() const override { return "mean_i log(1 + exp(−⟨A_i, x⟩)) + ‖x‖₂²/40"; }
  double value(const Point& x) const override {
    double sum = 0;
    for (const auto& a : data_) sum += log_one_plus_exp(-inner(a, x));
    return sum / samples + ridge * inner(x, x) / 2;
  }
  void gradient(const Point& x, Point& g) const override {
    for (size_t k = 0; k < g.size(); ++k) g[k] = ridge * x[k];
    for (const auto& a : data_) {
      const double weight = 1 / (1 + std::exp(inner(a, x))) / samples;
      for (size_t k = 0; k < g.size(); ++k) g[k] -= weight * a[k];
    }
  }
  double infimum() const override { return infimum_; }
  Point start() const override { return start_; }

  // <u, ∇²f u> <= mean <A_i, u>² / 4 + μ‖u‖₂², and the mean is at most that of ‖A_i‖*² and at most
  // λ_max ‖u‖₂² with the largest eigenvalue of C = mean A_i A_iᵀ.
  std::optional<double> lipschitz() const override {
    double sum = 0;
    for (const auto& a : data_) sum += std::pow(space().dual_norm(a), 2);
    const double zeta = space().zeta();
    return std::min(sum / samples, eigenvalue_bound() * zeta * zeta) / 4 + ridge * zeta * zeta;
  }

  Index terms() const override { return samples; }
  void term_gradient(Index i, const Point& x, Point& g) const override {
    const Point& a = data_[static_cast<size_t>(i)];
    const double weight = 1 / (1 + std::exp(inner(a, x)));
    for (size_t k = 0; k < g.size(); ++k) g[k] = ridge * x[k] - weight * a[k];
  }
  // The ridge is in every term; what varies is at most A_i in length.
  double term_variance() const override {
    double sum = 0;
    for (const auto& a : data_) sum += inner(a, a);
    return sum / samples;
  }

 private:
  static constexpr Index samples = 60;
  static constexpr double ridge = 0.05;

  // (tr C¹⁶)^(1/16) >= λ_max, and close.
  double eigenvalue_bound() const {
    const size_t d = space().size();
    Point c(d * d);
    for (const auto& a : data_) {
      for (size_t i = 0; i < d * d; ++i) c[i] += a[i / d] * a[i % d] / samples;
    }
    for (int doubling = 0; doubling < 3; ++doubling) {
      Point square(d * d);
      for (size_t i = 0; i < d; ++i) {
        for (size_t k = 0; k < d; ++k) {
          for (size_t j = 0; j < d; ++j) square[i * d + j] += c[i * d + k] * c[k * d + j];
        }
      }
      c = std::move(square);
    }
    return std::pow(inner(c, c), 1.0 / 16);  // tr C¹⁶ = ‖C⁸‖_F²
  }

  // Gradient descent, then strong convexity: f* >= f(x) − ‖∇f(x)‖₂² / (2μ), and a little less for
  // the rounding of f.
  void find_infimum() {
    double largest = 0;
    for (const auto& a : data_) largest += inner(a, a) / (4 * samples);
    Run run(*this, gd(1 / (largest + ridge)), start_);
    for (int k = 0; k < 4000; ++k) run.step();
    infimum_ =
        (1 - 1e-14) * run.value_before() - inner(run.gradient(), run.gradient()) / (2 * ridge);
  }

  std::vector<Point> data_;
  Point start_;
  double infimum_ = 0;
};

// Σ_l ‖U_l U_lᵀ − S_l S_lᵀ‖_F² / 4, gradient (UUᵀ − SSᵀ)U. Saddles at 0, minima at every S Q.
class Factorization : public Problem {
 public:
  explicit Factorization(const Space& space) : Problem(space), solution_(space.size()) {
    Random random(5);
    for (double& v : solution_) v = random.normal();
  }
  std::string name() const override { return "factorization"; }
  std::string formula() const override { return "Σ_l ‖U_l U_lᵀ − S_l S_lᵀ‖² / 4"; }
  bool convex() const override { return false; }

  double value(const Point& x) const override {
    double sum = 0;
    for_each_residual(x, [&](size_t, size_t, double r, size_t, size_t) { sum += r * r / 4; });
    return sum;
  }
  void gradient(const Point& x, Point& g) const override {
    for (double& v : g) v = 0;
    for_each_residual(x, [&](size_t i, size_t j, double r, size_t at, size_t cols) {
      for (size_t k = 0; k < cols; ++k) g[at + i * cols + k] += r * x[at + j * cols + k];
    });
  }
  Point start() const override {
    Random random(6);
    Point x(space().size());
    for (double& v : x) v = 2 * random.normal();
    return x;
  }

 private:
  template <class Body>
  void for_each_residual(const Point& x, const Body& body) const {
    for (size_t l = 0; l < space().layers().size(); ++l) {
      const size_t at = space().offset(l);
      const auto rows = static_cast<size_t>(space().layers()[l].shape.rows);
      const auto cols = static_cast<size_t>(space().layers()[l].shape.cols);
      for (size_t i = 0; i < rows; ++i) {
        for (size_t j = 0; j < rows; ++j) {
          double r = 0;
          for (size_t k = 0; k < cols; ++k) {
            r += x[at + i * cols + k] * x[at + j * cols + k] -
                 solution_[at + i * cols + k] * solution_[at + j * cols + k];
          }
          body(i, j, r, at, cols);
        }
      }
    }
  }

  Point solution_;
};

}  // namespace

ProblemPtr make_logistic(const Space& space) { return std::make_unique<Logistic>(space); }
ProblemPtr make_factorization(const Space& space) { return std::make_unique<Factorization>(space); }

}  // namespace normball::lab
