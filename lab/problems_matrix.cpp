// Problems whose layers are matrices in earnest: a quadratic that couples rows, ‖x − t‖₂⁴/4, and
// cosh of the singular values.
#include <algorithm>
#include <cmath>

#include "lab/problem.h"

namespace normball::lab {
namespace {

Point random_targets(const Space& space, double farthest) {
  Random random(2);
  Point t(space.size());
  for (double& v : t) v = farthest * (2 * random.uniform() - 1);
  return t;
}

// M = R diag(λ) R with a Householder reflection R = I − 2wwᵀ: dense, with known eigenvalues.
class RowCoupling {
 public:
  RowCoupling(Index rows, Random& random) : w_(static_cast<size_t>(rows)), eigenvalues_(w_.size()) {
    for (double& v : w_) v = random.normal();
    const double length = euclidean_norm(w_);
    for (double& v : w_) v /= length;
    for (size_t i = 0; i < w_.size(); ++i) {
      eigenvalues_[i] =
          rows == 1 ? 1 : std::pow(10, -static_cast<double>(i) / static_cast<double>(rows - 1));
    }
  }

  std::span<const double> eigenvalues() const { return eigenvalues_; }
  double entry(size_t i, size_t j) const {
    double sum = 0;
    for (size_t k = 0; k < w_.size(); ++k)
      sum += reflection(i, k) * eigenvalues_[k] * reflection(k, j);
    return sum;
  }
  // y <- R y for one column of stride `cols`.
  void reflect(double* y, Index cols) const {
    double dot = 0;
    for (size_t i = 0; i < w_.size(); ++i) dot += w_[i] * y[i * static_cast<size_t>(cols)];
    for (size_t i = 0; i < w_.size(); ++i) y[i * static_cast<size_t>(cols)] -= 2 * dot * w_[i];
  }
  // max sᵀMs over signs s, and Σ |M_ij|.
  double largest_over_signs() const {
    double largest = 0;
    for (unsigned signs = 0; signs < (1u << (w_.size() - 1)); ++signs) {
      double sum = 0;
      for (size_t i = 0; i < w_.size(); ++i) {
        for (size_t j = 0; j < w_.size(); ++j) {
          sum += ((signs >> i & 1) == (signs >> j & 1) ? 1 : -1) * entry(i, j);
        }
      }
      largest = std::max(largest, sum);
    }
    return largest;
  }
  double absolute_sum() const {
    double sum = 0;
    for (size_t i = 0; i < w_.size(); ++i) {
      for (size_t j = 0; j < w_.size(); ++j) sum += std::abs(entry(i, j));
    }
    return sum;
  }

 private:
  double reflection(size_t i, size_t j) const { return (i == j) - 2 * w_[i] * w_[j]; }

  Point w_, eigenvalues_;
};

class Quadratic : public Problem {
 public:
  explicit Quadratic(const Space& space) : Problem(space), targets_(random_targets(space, 3)) {
    Random random(3);
    for (const auto& layer : space.layers()) couplings_.emplace_back(layer.shape.rows, random);
  }

  std::string name() const override { return "quadratic"; }
  std::string formula() const override { return "Σ_l ⟨X_l − T_l, M_l (X_l − T_l)⟩ / 2"; }

  double value(const Point& x) const override {
    Point y = rotated(x);
    double sum = 0;
    for_each_entry([&](size_t at, double eigenvalue) { sum += eigenvalue * y[at] * y[at] / 2; });
    return sum;
  }
  void gradient(const Point& x, Point& g) const override {
    g = rotated(x);
    for_each_entry([&](size_t at, double eigenvalue) { g[at] *= eigenvalue; });
    reflect(g);
  }
  std::optional<double> lipschitz() const override {
    double sum = 0;
    for (size_t l = 0; l < couplings_.size(); ++l) {
      sum += space().unit(l) * space().unit(l) * layer_lipschitz(l);
    }
    return sum;
  }

 private:
  double layer_lipschitz(size_t l) const {
    const Shape& shape = space().layers()[l].shape;
    const auto& coupling = couplings_[l];
    switch (space().geometry(l)) {
      case Geometry::MaxAbs:
        return static_cast<double>(shape.cols) * coupling.largest_over_signs();
      case Geometry::RowL2:
        return coupling.absolute_sum();
      default:  // these depend on the eigenvalues only
        return diagonal_curvature(space().geometry(l), shape, coupling.eigenvalues());
    }
  }
  template <class Body>
  void for_each_entry(const Body& body) const {
    for (size_t l = 0; l < couplings_.size(); ++l) {
      const Shape& shape = space().layers()[l].shape;
      for (Index i = 0; i < shape.size(); ++i) {
        body(space().offset(l) + static_cast<size_t>(i),
             couplings_[l].eigenvalues()[static_cast<size_t>(i / shape.cols)]);
      }
    }
  }
  void reflect(Point& y) const {
    for (size_t l = 0; l < couplings_.size(); ++l) {
      const Index cols = space().layers()[l].shape.cols;
      for (Index j = 0; j < cols; ++j) {
        couplings_[l].reflect(y.data() + space().offset(l) + j, cols);
      }
    }
  }
  Point rotated(const Point& x) const {
    Point y = difference(x, targets_);
    reflect(y);
    return y;
  }

  Point targets_;
  std::vector<RowCoupling> couplings_;
};

// ∇f = r²z and ∇²f <= 3r² with r = ‖z‖₂; 3r² <= 4 + r³.
class Power : public Problem {
 public:
  explicit Power(const Space& space) : Problem(space), targets_(random_targets(space, 1)) {}

  std::string name() const override { return "power"; }
  std::string formula() const override { return "‖x − t‖₂⁴ / 4"; }
  double value(const Point& x) const override {
    const Point z = difference(x, targets_);
    return inner(z, z) * inner(z, z) / 4;
  }
  void gradient(const Point& x, Point& g) const override {
    g = difference(x, targets_);
    const double square = inner(g, g);
    for (double& v : g) v *= square;
  }
  std::optional<double> lipschitz_on_ball(double beta) const override {
    const double zeta = space().zeta(), r = euclidean_norm(targets_) + beta * zeta;
    return 3 * r * r * zeta * zeta;
  }
  std::optional<Smoothness> smoothness() const override {
    const double zeta = space().zeta();
    return first_order(4 * zeta * zeta, zeta * zeta * space().zeta_star());
  }

 private:
  Point targets_;
};

// A small square matrix, row-major.
struct Square {
  size_t n;
  Point a;

  static Square gram(const double* z, size_t rows, size_t cols) {  // of the shorter side
    const size_t n = std::min(rows, cols), m = std::max(rows, cols);
    Square g{n, Point(n * n)};
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        for (size_t k = 0; k < m; ++k) {
          g.a[i * n + j] +=
              rows <= cols ? z[i * cols + k] * z[j * cols + k] : z[k * cols + i] * z[k * cols + j];
        }
      }
    }
    return g;
  }
  double trace() const {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += a[i * n + i];
    return sum;
  }
  // this <- I + factor A this
  void horner(const Square& by, double factor) {
    Point next(n * n);
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < n; ++k) {
        for (size_t j = 0; j < n; ++j) next[i * n + j] += factor * by.a[i * n + k] * a[k * n + j];
      }
      next[i * n + i] += 1;
    }
    a = std::move(next);
  }
};

// first = 1: Σ A^k / (2k+1)! = sinh(√A)/√A.  first = 2: Σ 2 A^k / (2k+2)! = 2 (cosh(√A) − 1)/A.
// All terms are positive semidefinite: nothing cancels.
Square even_series(const Square& a, int first) {
  Square sum{a.n, Point(a.n * a.n)};
  // Beyond 800 cosh is past the largest double anyway, and so is the sum.
  const int terms = 12 + static_cast<int>(1.5 * std::min(800.0, std::sqrt(a.trace())));
  for (int k = terms; k >= 1; --k) sum.horner(a, 1.0 / ((2 * k + first - 1) * (2 * k + first)));
  return sum;
}

class MatrixCosh : public Problem {
 public:
  explicit MatrixCosh(const Space& space)
      : Problem(space), targets_(random_targets(space, farthest)) {
    for (size_t l = 0; l < space.layers().size(); ++l) {
      const Shape& shape = space.layers()[l].shape;
      const auto* t = targets_.data() + space.offset(l);
      lengths_.push_back(std::sqrt(
          Square::gram(t, static_cast<size_t>(shape.rows), static_cast<size_t>(shape.cols))
              .trace()));
    }
  }

  std::string name() const override { return "matrix_cosh"; }
  std::string formula() const override { return "Σ_l Σ_i (cosh(σ_i(X_l − T_l)) − 1)"; }

  double value(const Point& x) const override {
    const Point z = difference(x, targets_);
    double sum = 0;
    for_each_layer([&](size_t at, size_t rows, size_t cols) {
      const Square a = Square::gram(z.data() + at, rows, cols);
      const Square series = even_series(a, 2);
      for (size_t i = 0; i < a.a.size(); ++i) sum += a.a[i] * series.a[i] / 2;
    });
    return sum;
  }
  void gradient(const Point& x, Point& g) const override {
    const Point z = difference(x, targets_);
    std::ranges::fill(g, 0.0);
    for_each_layer([&](size_t at, size_t rows, size_t cols) {
      const Square s = even_series(Square::gram(z.data() + at, rows, cols), 1);
      for (size_t i = 0; i < rows; ++i) {
        for (size_t j = 0; j < cols; ++j) {
          double& out = g[at + i * cols + j];
          for (size_t k = 0; k < s.n; ++k) {
            out += rows <= cols ? s.a[i * s.n + k] * z[at + k * cols + j]
                                : z[at + i * cols + k] * s.a[k * s.n + j];
          }
        }
      }
    });
  }

  std::optional<double> lipschitz_on_ball(double beta) const override {
    double sum = 0;
    for (size_t l = 0; l < lengths_.size(); ++l) {
      const double width = operator_width(space().geometry(l), space().layers()[l].shape);
      sum += k0(l) * std::cosh(lengths_[l] + beta * space().unit(l) * width);
    }
    return sum;
  }
  std::optional<Smoothness> smoothness() const override {
    double sum = 0, k1 = 0;
    for (size_t l = 0; l < lengths_.size(); ++l) {
      const bool spectral = space().geometry(l) == Geometry::Operator;
      sum += k0(l);
      k1 = std::max(k1, spectral ? space().unit(l) : k0(l) / space().unit(l));
    }
    return first_order(sum, k1);
  }

 private:
  static constexpr double farthest = 1.5;

  double k0(size_t l) const {
    const Shape& shape = space().layers()[l].shape;
    const double square = space().unit(l) * space().unit(l);
    return space().geometry(l) == Geometry::Operator
               ? square * static_cast<double>(shape.rows + shape.cols) / 2
               : square * square_width(space().geometry(l), shape);
  }
  template <class Body>
  void for_each_layer(const Body& body) const {
    for (size_t l = 0; l < space().layers().size(); ++l) {
      const Shape& shape = space().layers()[l].shape;
      body(space().offset(l), static_cast<size_t>(shape.rows), static_cast<size_t>(shape.cols));
    }
  }

  Point targets_;
  std::vector<double> lengths_;  // ‖T_l‖_F >= its largest singular value
};

}  // namespace

ProblemPtr make_quadratic(const Space& space) { return std::make_unique<Quadratic>(space); }
ProblemPtr make_power(const Space& space) { return std::make_unique<Power>(space); }
ProblemPtr make_matrix_cosh(const Space& space) { return std::make_unique<MatrixCosh>(space); }

}  // namespace normball::lab
