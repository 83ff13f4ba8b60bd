// Singular values cut at tau, against a singular value decomposition in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "normball/norms.h"
#include "normball/optimizer.h"
#include "normball/polar.h"
#include "spectra.h"
#include "testing.h"

namespace normball::testing {
namespace {

template <class T>
Matrix<T> clipped(const ClippedPolar& solver, const Matrix<T>& x, int threads = 1) {
  Workspace workspace;
  Matrix<T> q(x.rows, x.cols, 3);
  polar<T>(solver, x.view(), q.view(), workspace, nullptr, threads);
  return q;
}

struct Decomposed {
  Matrix<double> u, vt;
  std::vector<double> sigma;
};

Decomposed decompose(Matrix<double> x) {
  const SingleThreadedBlas guard;
  const Index k = std::min(x.rows, x.cols);
  Decomposed all{Matrix<double>(x.rows, k), Matrix<double>(k, x.cols),
                 std::vector<double>(static_cast<size_t>(k))};
  Workspace workspace;
  blas::svd<double>(x.view(), all.u.view(), all.sigma.data(), all.vt.view(), workspace);
  return all;
}

Matrix<double> reference(const Decomposed& svd, double tau) {
  Matrix<double> u = svd.u;
  for (Index i = 0; i < u.rows; ++i) {
    for (Index k = 0; k < u.cols; ++k) {
      u(i, k) *= std::min(1.0, svd.sigma[static_cast<size_t>(k)] / tau);
    }
  }
  return product(u, blas::Op::None, svd.vt);
}

template <class T>
double largest_singular(const Matrix<T>& x) {
  return decompose(testing::convert<double>(x)).sigma[0];
}

const std::vector<std::pair<Index, Index>> sizes = {
    {1, 1}, {1, 9}, {9, 1}, {5, 5}, {5, 40}, {40, 5}, {33, 33}, {64, 90}, {90, 64}, {300, 300}};

template <class T>
class ClippedPolarGrid : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ClippedPolarGrid, Types);

TYPED_TEST(ClippedPolarGrid, Survey) {
  using T = TypeParam;
  Random random(7);
  for (const auto& [rows, cols] : sizes) {
    for (const Spectrum& spectrum : all_spectra<T>()) {
      const auto x = testing::convert<T>(matrix_with(spectrum, rows, cols, random));
      const auto svd = decompose(testing::convert<double>(x));
      for (const double share : {1e-5, 1e-3, 0.03, 0.1, 0.4, 1.0}) {
        const double tau = share * svd.sigma[0];
        const auto q = testing::convert<double>(clipped<T>({.share = 0, .tau = tau}, x));
        const auto want = reference(svd, tau);
        Matrix<double> e = q;
        for (Index i = 0; i < rows; ++i) for (Index j = 0; j < cols; ++j) e(i, j) -= want(i, j);
        const double error = decompose(e).sigma[0], top = decompose(q).sigma[0];
        std::printf("%s %ldx%ld %s %g share %g error %.2e units %.1f top-1 %.1e\n", sizeof(T)==4?"f":"d", (long)rows, (long)cols, spectrum.name.c_str(), spectrum.condition, share, error, error*share/std::numeric_limits<T>::epsilon(), top - 1);
      }
    }
  }
}

}  // namespace
}  // namespace normball::testing
