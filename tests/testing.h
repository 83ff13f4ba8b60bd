// What the tests share: owning matrices, random input of many kinds, and reference computations
// that use nothing of the library.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "normball/normball.h"

namespace normball::testing {

// Sanitizers are slow: the tests have fewer and smaller cases there.
#ifdef NORMBALL_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

template <class T>
struct Matrix {
  Index rows = 0;
  Index cols = 0;
  Index stride = 0;
  std::vector<T> data = {};

  Matrix() = default;
  Matrix(Index rows_, Index cols_, Index padding = 0)
      : rows(rows_),
        cols(cols_),
        stride(cols_ + padding),
        data(static_cast<size_t>(rows_ * (cols_ + padding))) {}
  Matrix(Index rows_, Index cols_, std::initializer_list<T> values) : Matrix(rows_, cols_) {
    std::copy(values.begin(), values.end(), data.begin());
  }

  T& operator()(Index i, Index j) { return data[static_cast<size_t>(i * stride + j)]; }
  const T& operator()(Index i, Index j) const { return data[static_cast<size_t>(i * stride + j)]; }
  MatrixView<T> view() { return {data.data(), rows, cols, stride}; }
  ConstMatrixView<T> view() const { return {data.data(), rows, cols, stride}; }

  friend bool operator==(const Matrix&, const Matrix&) = default;
};

template <class To, class From>
Matrix<To> convert(const Matrix<From>& from) {
  Matrix<To> to(from.rows, from.cols);
  for (Index i = 0; i < from.rows; ++i) {
    for (Index j = 0; j < from.cols; ++j) to(i, j) = static_cast<To>(from(i, j));
  }
  return to;
}

template <class T>
Matrix<T> gaussian(Index rows, Index cols, Random& random, double scale = 1, Index padding = 0) {
  Matrix<T> x(rows, cols, padding);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) x(i, j) = static_cast<T>(scale * random.normal());
  }
  return x;
}

inline Matrix<double> multiply(const Matrix<double>& a, const Matrix<double>& b) {
  Matrix<double> c(a.rows, b.cols);
  for (Index i = 0; i < a.rows; ++i) {
    for (Index k = 0; k < a.cols; ++k) {
      for (Index j = 0; j < b.cols; ++j) c(i, j) += a(i, k) * b(k, j);
    }
  }
  return c;
}

inline Matrix<double> transpose(const Matrix<double>& a) {
  Matrix<double> t(a.cols, a.rows);
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < a.cols; ++j) t(j, i) = a(i, j);
  }
  return t;
}

// a = u diag(sigma) vᵀ by one-sided Jacobi rotations: slow, accurate, independent of LAPACK.
struct Svd {
  Matrix<double> u, v;
  std::vector<double> sigma;
};

inline Svd jacobi_svd(const Matrix<double>& a) {
  if (a.rows < a.cols) {
    Svd t = jacobi_svd(transpose(a));
    return {std::move(t.v), std::move(t.u), std::move(t.sigma)};
  }
  double scale = 0;
  for (const double x : a.data) scale = std::max(scale, std::abs(x));
  const Index n = a.cols;
  Svd svd{convert<double>(a), Matrix<double>(n, n), std::vector<double>(static_cast<size_t>(n))};
  if (scale > 0) {
    for (double& x : svd.u.data) x /= scale;
  }
  for (Index i = 0; i < n; ++i) svd.v(i, i) = 1;
  auto& u = svd.u;
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < 60; ++sweep) {
    rotated = false;
    for (Index p = 0; p < n; ++p) {
      for (Index q = p + 1; q < n; ++q) {
        double pp = 0, qq = 0, pq = 0;
        for (Index i = 0; i < u.rows; ++i) {
          pp += u(i, p) * u(i, p);
          qq += u(i, q) * u(i, q);
          pq += u(i, p) * u(i, q);
        }
        if (std::abs(pq) <= 1e-16 * std::sqrt(pp * qq) || pq == 0) continue;
        rotated = true;
        const double tau = (qq - pp) / (2 * pq);
        const double t = (tau >= 0 ? 1 : -1) / (std::abs(tau) + std::sqrt(1 + tau * tau));
        const double c = 1 / std::sqrt(1 + t * t), s = c * t;
        const auto rotate = [&](Matrix<double>& m) {
          for (Index i = 0; i < m.rows; ++i) {
            const double x = m(i, p), y = m(i, q);
            m(i, p) = c * x - s * y;
            m(i, q) = s * x + c * y;
          }
        };
        rotate(svd.u);
        rotate(svd.v);
      }
    }
  }
  for (Index j = 0; j < n; ++j) {
    double length = 0;
    for (Index i = 0; i < u.rows; ++i) length = std::hypot(length, u(i, j));
    for (Index i = 0; i < u.rows && length > 0; ++i) u(i, j) /= length;
    svd.sigma[static_cast<size_t>(j)] = length * scale;
  }
  return svd;
}

inline double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

inline double max_of(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// UVᵀ over the singular values above `cut` times the largest.
inline Matrix<double> reference_polar(const Matrix<double>& a, double cut = 1e-13) {
  const Svd svd = jacobi_svd(a);
  Matrix<double> q(a.rows, a.cols);
  const double threshold = cut * max_of(svd.sigma);
  for (size_t k = 0; k < svd.sigma.size(); ++k) {
    if (svd.sigma[k] <= threshold) continue;
    for (Index i = 0; i < a.rows; ++i) {
      for (Index j = 0; j < a.cols; ++j) {
        q(i, j) += svd.u(i, static_cast<Index>(k)) * svd.v(j, static_cast<Index>(k));
      }
    }
  }
  return q;
}

template <class A, class B>
double inner(const Matrix<A>& a, const Matrix<B>& b) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < a.cols; ++j) {
      sum += static_cast<double>(a(i, j)) * static_cast<double>(b(i, j));
    }
  }
  return sum;
}

template <class A, class B>
double max_difference(const Matrix<A>& a, const Matrix<B>& b) {
  double max = 0;
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < a.cols; ++j) {
      max = std::max(max, std::abs(static_cast<double>(a(i, j)) - static_cast<double>(b(i, j))));
    }
  }
  return max;
}

// Expects an exception of the type whose text starts with [function] and has all the parts.
template <class Error, class Body>
void expect_error(const Body& body, const std::vector<std::string>& parts) {
  try {
    body();
    ADD_FAILURE() << "no exception; expected one with " << parts.front();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.front(), '[') << text;
    for (const auto& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' not in: " << text;
    }
  }
}

template <class Body>
void expect_invalid(const Body& body, const std::vector<std::string>& parts) {
  expect_error<std::invalid_argument>(body, parts);
}

}  // namespace normball::testing
