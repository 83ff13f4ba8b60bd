// Singular values cut at tau, against a singular value decomposition in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "normball/method.h"
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

// Largest first. By Jacobi rotations where that is fast enough: beyond a ratio of 1000 the solver
// uses LAPACK's decomposition itself, which would then be compared with itself.
Decomposed decompose(const Matrix<double>& x) {
  const Index k = std::min(x.rows, x.cols);
  Decomposed all{Matrix<double>(x.rows, k), Matrix<double>(k, x.cols),
                 std::vector<double>(static_cast<size_t>(k))};
  if (k > 40) {
    const SingleThreadedBlas guard;
    Matrix<double> destroyed = x;
    Workspace workspace;
    blas::svd<double>(destroyed.view(), all.u.view(), all.sigma.data(), all.vt.view(), workspace);
    return all;
  }
  const Svd svd = jacobi_svd(x);
  std::vector<Index> order(static_cast<size_t>(k));
  std::iota(order.begin(), order.end(), Index{0});
  std::ranges::sort(order, std::greater{},
                    [&](Index i) { return svd.sigma[static_cast<size_t>(i)]; });
  for (Index to = 0; to < k; ++to) {
    const Index from = order[static_cast<size_t>(to)];
    all.sigma[static_cast<size_t>(to)] = svd.sigma[static_cast<size_t>(from)];
    for (Index i = 0; i < x.rows; ++i) all.u(i, to) = svd.u(i, from);
    for (Index j = 0; j < x.cols; ++j) all.vt(to, j) = svd.v(j, from);
  }
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

TYPED_TEST(ClippedPolarGrid, MatchesTheSvd) {
  using T = TypeParam;
  constexpr bool single = std::is_same_v<T, float>;
  Random random(7);
  for (const auto& [rows, cols] : sizes) {
    for (const Spectrum& spectrum : all_spectra<T>()) {
      if (rows == 300 && spectrum.condition == 1e2) continue;  // for time
      const auto x = testing::convert<T>(matrix_with(spectrum, rows, cols, random));
      const auto svd = decompose(testing::convert<double>(x));
      for (const double share : {1e-5, 1e-3, 0.03, 0.4, 1.0}) {
        SCOPED_TRACE(::testing::Message() << rows << "x" << cols << ", " << spectrum.name << ' '
                                          << spectrum.condition << ", share " << share);
        const auto q = testing::convert<double>(clipped<T>({.share = share}, x));
        const auto want = reference(svd, share * svd.sigma[0]);
        EXPECT_LE(max_difference(q, want), single ? 2e-7 : 2e-10);
        const double tau = share * svd.sigma[0];
        EXPECT_LE(max_difference(clipped<T>({.share = 0, .tau = tau}, x), want),
                  single ? 2e-7 : 2e-10);
        if (rows < 100) {
          EXPECT_LE(largest_singular(q), 1 + (single ? 2e-7 : 2e-10));
        }
      }
    }
  }
}

// min(1, σ/τ) with τ on, just above and just below a cluster of equal values.
TYPED_TEST(ClippedPolarGrid, IsContinuousAcrossACluster) {
  using T = TypeParam;
  Random random(3);
  const auto exact = matrix_with({"rank n/2 of ones"}, 24, 40, random);
  const auto x = testing::convert<T>(exact);
  const auto svd = decompose(testing::convert<double>(x));
  for (const double tau : {0.999999, 1.0, 1.000001}) {
    const auto q = clipped<T>({.share = 0, .tau = tau}, x);
    EXPECT_LE(max_difference(q, reference(svd, tau)), (std::is_same_v<T, float> ? 2e-7 : 1e-12));
  }
}

TYPED_TEST(ClippedPolarGrid, HoldsAtEveryScale) {
  using T = TypeParam;
  Random random(5);
  const auto x = gaussian<double>(12, 20, random);
  const auto svd = decompose(x);
  constexpr bool single = std::is_same_v<T, float>;
  for (const double scale :
       single ? std::vector{1e-30, 1e-12, 1e12, 1e30} : std::vector{1e-280, 1e-100, 1e100, 1e280}) {
    Matrix<T> scaled(12, 20);
    for (size_t i = 0; i < x.data.size(); ++i) {
      scaled.data[i] = static_cast<T>(x.data[i] * scale);
    }
    const double tau = 0.5 * svd.sigma[0];
    const auto want = reference(svd, tau);
    const double allowed = single ? 1e-6 : 1e-11;
    EXPECT_LE(max_difference(clipped<T>({.share = 0.5}, scaled), want), allowed) << scale;
    EXPECT_LE(max_difference(clipped<T>({.share = 0, .tau = tau * scale}, scaled), want), allowed);
    // A threshold above all of it leaves x / tau, one far below all of it UVᵀ.
    const auto whole = clipped<T>({.share = 0, .tau = 100 * tau * scale}, scaled);
    EXPECT_LE(max_difference(whole, reference(svd, 100 * tau)), allowed);
    const auto ones = clipped<T>({.share = 0, .tau = 1e-20 * scale}, scaled);
    EXPECT_LE(max_difference(ones, reference(svd, 1e-20)), single ? 1e-5 : 1e-11);
  }
  const Matrix<T> zero(4, 6, 3);
  EXPECT_EQ(clipped<T>({}, zero).data, zero.data);
}

TYPED_TEST(ClippedPolarGrid, DoesNotDependOnThreads) {
  Random random(9);
  const auto x = testing::convert<TypeParam>(gaussian<double>(260, 310, random));
  EXPECT_EQ(clipped<TypeParam>({}, x, 1).data, clipped<TypeParam>({}, x, 2).data);
}

// It minimizes ⟨-x, q⟩ + τ‖q‖²/2 over the ball: no point of the ball does better.
TEST(ClippedPolar, MinimizesTheRegularizedPairing) {
  Random random(4);
  const auto x = gaussian<double>(6, 9, random);
  const double tau = 1.5;
  const auto value = [&](const Matrix<double>& q) {
    double sum = 0;
    for (size_t i = 0; i < x.data.size(); ++i) {
      sum += q.data[i] * (tau * q.data[i] / 2 - x.data[i]);
    }
    return sum;
  };
  Workspace workspace;
  Matrix<double> best(6, 9);
  polar<double>(ClippedPolar{.share = 0, .tau = tau}, x.view(), best.view(), workspace);
  for (int trial = 0; trial < 300; ++trial) {
    Matrix<double> other = trial % 2 == 0 ? gaussian<double>(6, 9, random) : best;
    for (double& entry : other.data) entry += 0.01 * random.normal();
    const double size = largest_singular(other);
    for (double& entry : other.data) entry /= std::max(1.0, size);
    EXPECT_GE(value(other), value(best) - 1e-12);
  }
}

TEST(ClippedPolar, IsAValueWithAText) {
  for (const char* text : {"clip", "clip(share=0.25)", "clip(tau=2.5)"}) {
    EXPECT_EQ(to_string(parse_polar_solver(text)), text);
    EXPECT_EQ(parse_polar_solver(to_string(parse_polar_solver(text))), parse_polar_solver(text));
  }
  EXPECT_EQ(parse_polar_solver("clip(share=0.1)"), PolarSolver(ClippedPolar{}));
  for (const char* bad : {"clip(share=0)", "clip(tau=0)", "clip(share=1.5)", "clip(tau=-1)",
                          "clip(tau=inf)", "clip(tau=1, share=0.5)", "clip(rho=1)"}) {
    EXPECT_THROW(parse_polar_solver(bad), std::invalid_argument) << bad;
  }
}

// The norm is the spectral one all the same: its sphere, size and dual norm do not change.
TEST(ClippedPolar, LeavesTheNormAlone) {
  Random random(6);
  const Norm clip = parse_norm("spectral(solver=clip(tau=1000))"), plain = Spectral{};
  Matrix<double> x(8, 5);
  sample_sphere<double>(clip, {.rows = 8, .cols = 5}, 3, x.view(), random);
  EXPECT_NEAR(norm(plain, x.view()), 3, 1e-12);
  EXPECT_EQ(dual_norm(clip, x.view()), dual_norm(plain, x.view()));
}

TEST(ClippedPolar, StepsByLrTimesTheClippedDirection) {
  Random random(8);
  const auto gradient = gaussian<double>(7, 4, random);
  Matrix<double> weight(7, 4), g = gradient;
  const Norm norm = parse_norm("spectral(unit, solver=clip(tau=1.2))");
  Optimizer<double> optimizer(unconstrained_scion(0.3, 1.0),
                              {{.shape = {.rows = 7, .cols = 4}, .norm = norm, .radius = 2}});
  const std::vector<Parameter<double>> parameters = {{weight.view(), g.view()}};
  const StepReport& report = optimizer.step(parameters);
  const auto direction = reference(decompose(gradient), 1.2);
  double pairing = 0;
  for (size_t i = 0; i < gradient.data.size(); ++i) {
    EXPECT_NEAR(weight.data[i], -0.3 * 2 * direction.data[i], 1e-13);
    pairing += 2 * gradient.data[i] * direction.data[i];
  }
  EXPECT_NEAR(report.pairing, pairing, 1e-12);
}

TEST(ClippedPolar, IsRefusedWhereItWouldBeWrong) {
  const auto layers = [](const char* solver) {
    return std::vector<Layer>{{.shape = {.rows = 4, .cols = 4},
                               .norm = parse_norm("spectral", parse_polar_solver(solver))}};
  };
  EXPECT_THROW(Optimizer<float>(scion(0.1, 1.0), layers("clip")), std::invalid_argument);
  const Method free = unconstrained_scion(0.1, 1.0);
  EXPECT_THROW(Optimizer<float>(free, layers("clip(tau=1)"), {.light = true}),
               std::invalid_argument);
  EXPECT_NO_THROW(Optimizer<float>(free, layers("clip"), {.light = true}));
  EXPECT_NO_THROW(Optimizer<float>(free, layers("clip(tau=1)")));
}

}  // namespace
}  // namespace normball::testing
