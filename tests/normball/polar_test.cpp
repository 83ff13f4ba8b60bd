#include "normball/polar.h"

#include <functional>
#include <limits>
#include <span>
#include <sstream>

#include "internal/polar/adversary.h"
#include "internal/polar/spectra.h"
#include "testing.h"

namespace normball::testing {
namespace {

template <class T>
Matrix<T> polar_of(const PolarSolver& solver, const Matrix<T>& x) {
  Workspace workspace;
  Matrix<T> q(x.rows, x.cols, 3);
  polar<T>(solver, x.view(), q.view(), workspace);
  return q;
}

// u diag(sigma) vᵀ with random orthonormal u and v.
Matrix<double> with_spectrum(Index rows, Index cols, const std::vector<double>& sigma,
                             Random& random) {
  const Matrix<double> u = reference_polar(gaussian<double>(rows, std::min(rows, cols), random));
  const Matrix<double> v = reference_polar(gaussian<double>(cols, std::min(rows, cols), random));
  Matrix<double> scaled = u;
  for (Index i = 0; i < u.rows; ++i) {
    for (Index k = 0; k < u.cols; ++k) scaled(i, k) *= sigma[static_cast<size_t>(k)];
  }
  return multiply(scaled, transpose(v));
}

std::vector<double> geometric(Index n, double condition) {
  std::vector<double> sigma(static_cast<size_t>(n));
  for (Index k = 0; k < n; ++k) {
    sigma[static_cast<size_t>(k)] =
        std::pow(condition, n == 1 ? 0 : -static_cast<double>(k) / static_cast<double>(n - 1));
  }
  return sigma;
}

const std::vector<std::pair<Index, Index>> shapes = {{1, 1},   {1, 9},   {9, 1},   {5, 5},
                                                     {8, 20},  {20, 8},  {33, 33}, {40, 7},
                                                     {64, 64}, {17, 90}, {90, 17}, {70, 75}};

TEST(ExactPolar, MatchesTheSvdForWellConditionedMatrices) {
  Random random(1);
  for (const auto& [rows, cols] : shapes) {
    SCOPED_TRACE(::testing::Message() << rows << "x" << cols);
    const auto x = with_spectrum(rows, cols, geometric(std::min(rows, cols), 50), random);
    const auto reference = reference_polar(x);
    EXPECT_LE(max_difference(polar_of(ExactPolar{}, x), reference), 1e-12);
    EXPECT_LE(max_difference(polar_of(SvdPolar{}, x), reference), 1e-12);
    EXPECT_LE(max_difference(polar_of(ExactPolar{}, convert<float>(x)), reference), 2e-5);
  }
}

TEST(ExactPolar, HasUnitSingularValuesUpToLargeConditionNumbers) {
  Random random(2);
  for (const auto& [rows, cols] : shapes) {
    for (const double condition : {1.0, 1e2, 1e4, 1e6}) {
      SCOPED_TRACE(::testing::Message() << rows << "x" << cols << ", condition " << condition);
      const auto x = with_spectrum(rows, cols, geometric(std::min(rows, cols), condition), random);
      const auto single = polar_of(ExactPolar{}, convert<float>(x));
      const double cut = static_cast<double>(std::max(rows, cols)) *
                         static_cast<double>(std::numeric_limits<float>::epsilon());
      const auto sigma = geometric(std::min(rows, cols), condition);
      auto found = jacobi_svd(convert<double>(single)).sigma;
      std::ranges::sort(found, std::greater<>());
      for (size_t k = 0; k < sigma.size(); ++k) {
        if (sigma[k] > cut / 1.5 && sigma[k] < 1.5 * cut) continue;
        EXPECT_NEAR(found[k], sigma[k] > cut ? 1 : 0, 1e-3);
      }
      for (const double s : jacobi_svd(polar_of(ExactPolar{}, x)).sigma) EXPECT_NEAR(s, 1, 1e-10);
    }
    const auto hard = with_spectrum(rows, cols, geometric(std::min(rows, cols), 1e10), random);
    for (const double sigma : jacobi_svd(polar_of(ExactPolar{}, hard)).sigma) {
      EXPECT_NEAR(sigma, 1, 1e-10);
    }
  }
}

TEST(ExactPolar, KeepsTheRangeOfRankDeficientMatricesAndStaysInTheBall) {
  Random random(3);
  for (const auto& [rows, cols] : shapes) {
    const Index n = std::min(rows, cols), rank = (n + 1) / 2;
    SCOPED_TRACE(::testing::Message() << rows << "x" << cols << " of rank " << rank);
    auto sigma = geometric(n, 10);
    for (Index k = rank; k < n; ++k) sigma[static_cast<size_t>(k)] = 0;
    const auto x = with_spectrum(rows, cols, sigma, random);
    const auto q = polar_of(ExactPolar{}, x);
    EXPECT_LE(max_of(jacobi_svd(q).sigma), 1 + 1e-12);
    // q restricted to the range: q times the projection on the row space of x.
    const auto reference = reference_polar(x, 1e-10);
    const auto projection = multiply(transpose(reference), reference);
    EXPECT_LE(max_difference(multiply(convert<double>(q), projection), reference), 1e-10);
  }
}

// The canonical partial isometry over the singular values above max(rows, cols) epsilon sigma_1 of
// the matrix as stored, by Jacobi's method in double.
template <class T>
double error_against_jacobi(const PolarSolver& solver, const Matrix<T>& x) {
  const double cut = static_cast<double>(std::max(x.rows, x.cols)) *
                     static_cast<double>(std::numeric_limits<T>::epsilon());
  const auto expected = reference_polar(convert<double>(x), cut);
  auto difference = convert<double>(polar_of(solver, x));
  for (Index i = 0; i < x.rows; ++i) {
    for (Index j = 0; j < x.cols; ++j) difference(i, j) -= expected(i, j);
  }
  return max_of(jacobi_svd(difference).sigma);
}

TEST(RankRule, SingularValuesAtRoundingLevelMapToZeroInEverySolverAndPrecision) {
  Random random(21);
  for (const auto& [rows, cols] : shapes) {
    const Index n = std::min(rows, cols);
    for (const Index rank : {Index{1}, (n + 3) / 4, (n + 1) / 2, n - 1, n}) {
      if (rank < 1) continue;
      auto x = product(gaussian<double>(rank, rows, random), blas::Op::Transpose,
                       gaussian<double>(rank, cols, random));
      for (const bool spoiled : {false, true}) {
        if (spoiled) {  // a zero row, and one twice
          std::fill_n(&x(rows / 2, 0), cols, 0.0);
          std::copy_n(&x(0, 0), cols, &x(rows - 1, 0));
        }
        SCOPED_TRACE(::testing::Message() << rows << "x" << cols << " of rank " << rank);
        for (const PolarSolver& solver : {PolarSolver(ExactPolar{}), PolarSolver(SvdPolar{})}) {
          SCOPED_TRACE(to_string(solver));
          EXPECT_LE(error_against_jacobi(solver, convert<float>(x)), 5e-3);
          EXPECT_LE(error_against_jacobi(solver, x), 1e-6);
        }
      }
    }
  }
}

TEST(RankRule, TheCutIsTheLongSideTimesEpsilon) {
  Random random(22);
  for (const auto& [rows, cols] : {std::pair<Index, Index>{24, 24}, {20, 70}, {130, 60}}) {
    const Index n = std::min(rows, cols);
    for (const double factor : {0.5, 2.0}) {
      const auto check = [&](auto zero, double tolerance) {
        using T = decltype(zero);
        auto sigma = geometric(n, 30);
        for (Index k = n / 2; k < n; ++k) {
          sigma[static_cast<size_t>(k)] = factor * static_cast<double>(std::max(rows, cols)) *
                                          static_cast<double>(std::numeric_limits<T>::epsilon());
        }
        const auto x = convert<T>(with_spectrum(rows, cols, sigma, random));
        for (const PolarSolver& solver : {PolarSolver(ExactPolar{}), PolarSolver(SvdPolar{})}) {
          auto found = jacobi_svd(convert<double>(polar_of(solver, x))).sigma;
          std::ranges::sort(found, std::greater<>());
          EXPECT_NEAR(found[static_cast<size_t>(n / 2 - 1)], 1, tolerance);
          for (const double s : std::span(found).subspan(static_cast<size_t>(n / 2))) {
            EXPECT_NEAR(s, factor > 1 ? 1 : 0, tolerance)
                << rows << "x" << cols << ", " << to_string(solver) << ", " << sizeof(T);
          }
        }
      };
      check(float(), 1e-3);
      check(double(), 1e-3);
    }
  }
}

// What <x, q> lacks of the dual norm are the singular values up to the cut: at most n - r times it.
TEST(RankRule, ThePairingLacksTheSingularValuesUpToTheCut) {
  Random random(23);
  for (const auto& [rows, cols] : {std::pair<Index, Index>{40, 40}, {36, 100}, {90, 50}}) {
    const Index n = std::min(rows, cols);
    const double cut = static_cast<double>(std::max(rows, cols)) *
                       static_cast<double>(std::numeric_limits<float>::epsilon());
    for (const Index rank : {Index{1}, n / 3, n}) {
      std::vector<double> sigma(static_cast<size_t>(n), cut / 3);
      std::fill_n(sigma.begin(), rank, 1.0);
      const auto x = convert<float>(with_spectrum(rows, cols, sigma, random));
      const auto stored = convert<double>(x);
      for (const PolarSolver& solver : {PolarSolver(ExactPolar{}), PolarSolver(SvdPolar{})}) {
        const auto svd = jacobi_svd(stored);
        const double nuclear = std::accumulate(svd.sigma.begin(), svd.sigma.end(), 0.0);
        const double lack = nuclear - inner(stored, convert<double>(polar_of(solver, x)));
        const double bound = static_cast<double>(n - rank) * cut;
        EXPECT_LE(lack, bound + 2e-5 * nuclear) << to_string(solver) << " rank " << rank;
        EXPECT_GE(lack, bound / 4 - 2e-5 * nuclear) << to_string(solver) << " rank " << rank;
      }
    }
  }
}

template <class T>
void expect_hard_cases(long cases, std::uint64_t seed) {
  for (long i = 0; i < cases; ++i, ++seed) {
    Random random(seed);
    const Index n = 2 + below(random, 47), m = n + below(random, 2) * below(random, 3 * n);
    const bool tall = random.next() % 2 == 0, single = std::is_same_v<T, float>;
    const auto hard = hard_matrix(tall ? m : n, tall ? n : m, single ? 1e6 : 1e10, random);
    const auto q = hard_quality<T>(ExactPolar{}, convert<T>(hard.x));
    EXPECT_TRUE(q.within(single, m))
        << "seed " << seed << ", " << hard.x.rows << "x" << hard.x.cols << ", " << hard.name
        << ": error " << q.error << ", above one " << q.above_one << ", below one " << q.below_one
        << ", pairing " << q.pairing;
  }
}

TEST(ExactPolar, HoldsItsBoundsOnHardMatrices) {
  const long cases = sanitized ? 100 : 1500;
  expect_hard_cases<float>(cases, 1000000);
  expect_hard_cases<double>(cases, 2000000);
}

template <class T>
void expect_zeros_left_out(const Matrix<double>& x, const std::string& name) {
  const auto rounded = convert<T>(x);
  const auto quality = hard_quality<T>(ExactPolar{}, rounded);
  EXPECT_TRUE(quality.within(std::is_same_v<T, float>, std::max(x.rows, x.cols)))
      << name << ": error " << quality.error << ", above one " << quality.above_one
      << ", below one " << quality.below_one << ", pairing " << quality.pairing;
  // Into a block of a wider matrix, whose other entries are not touched.
  Matrix<T> wide(x.rows + 2, x.cols + 3);
  std::ranges::fill(wide.data, T(5));
  const MatrixView<T> q(&wide(1, 2), x.rows, x.cols, wide.cols);
  Workspace workspace;
  polar<T>(ExactPolar{}, rounded.view(), q, workspace);
  for (Index i = 0; i < wide.rows; ++i) {
    for (Index j = 0; j < wide.cols; ++j) {
      const Index row = i - 1, col = j - 2;
      if (row < 0 || row >= x.rows || col < 0 || col >= x.cols) {
        EXPECT_EQ(wide(i, j), T(5)) << name;
        continue;
      }
      bool row_is_zero = true, col_is_zero = true;
      for (Index k = 0; k < x.cols; ++k) row_is_zero = row_is_zero && rounded(row, k) == 0;
      for (Index k = 0; k < x.rows; ++k) col_is_zero = col_is_zero && rounded(k, col) == 0;
      if (row_is_zero || col_is_zero) {
        EXPECT_EQ(wide(i, j), T(0)) << name;
      }
    }
  }
}

TEST(ExactPolar, LeavesOutZeroRowsAndColumns) {
  Random random(32);
  for (const auto& [rows, cols] : {std::pair<Index, Index>{40, 40}, {30, 45}, {150, 70}}) {
    for (const Index row_step : {1, 2, 3, 37}) {
      for (const Index col_step : {1, 2, 5, 29}) {
        for (const bool most : {false, true}) {  // most lines are zero, or most are not
          auto x = gaussian<double>(rows, cols, random);
          for (Index i = 0; i < rows; ++i) {
            for (Index j = 0; j < cols; ++j) {
              const bool in_row = row_step == 1 || (i % row_step == 1) == most;
              const bool in_col = col_step == 1 || (j % col_step == 1) == most;
              if (!in_row || !in_col) x(i, j) = 0;
            }
          }
          const auto name = std::to_string(rows) + "x" + std::to_string(cols) + ", steps " +
                            std::to_string(row_step) + " and " + std::to_string(col_step);
          expect_zeros_left_out<float>(x, name);
          expect_zeros_left_out<double>(x, name);
          for (double& value : x.data) value *= 1e-30;
          expect_zeros_left_out<float>(x, name + ", tiny");
        }
      }
    }
  }
}

// ... and the cut is still that of the whole matrix.
template <class T>
void expect_cut_of_the_whole() {
  constexpr Index n = 20, m = 4000;
  Random random(33);
  std::vector<double> sigma(n, 1.0);
  sigma.back() = 0.4 * m * static_cast<double>(std::numeric_limits<T>::epsilon());
  const auto core = with_spectrum(n, n, sigma, random);
  Matrix<double> x(n, m);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) x(i, 7 * j) = core(i, j);
  }
  for (const auto& each : {x, transpose(x)}) {
    const auto q = convert<double>(polar_of(ExactPolar{}, convert<T>(each)));
    EXPECT_NEAR(inner(q, q), n - 1, 1e-3);
  }
}

TEST(ExactPolar, LeavingOutZerosDoesNotMoveTheCut) {
  expect_cut_of_the_whole<float>();
  expect_cut_of_the_whole<double>();
}

// As gradients have them: no gap anywhere, so that both ends are split off.
TEST(ExactPolar, HoldsItsBoundsOnSpectraThatFallGradually) {
  Random random(31);
  for (const auto& [rows, cols] : {std::pair<Index, Index>{160, 160}, {130, 300}, {300, 130}}) {
    for (const double condition : {1e2, 3e3, 2e4}) {
      auto x = matrix_with({"log-uniform", condition}, rows, cols, random);
      for (const bool heavy : {false, true}) {  // with one direction above all others
        if (heavy) {
          auto one = product(gaussian<double>(1, rows, random), blas::Op::Transpose,
                             gaussian<double>(1, cols, random));
          const double factor = 20 / std::sqrt(inner(one, one));
          for (size_t i = 0; i < x.data.size(); ++i) x.data[i] += factor * one.data[i];
        }
        const auto q = hard_quality<float>(ExactPolar{}, convert<float>(x));
        EXPECT_TRUE(q.within(true, std::max(rows, cols)))
            << rows << "x" << cols << ", condition " << condition << (heavy ? ", heavy" : "")
            << ": error " << q.error << ", above one " << q.above_one << ", below one "
            << q.below_one << ", pairing " << q.pairing;
      }
    }
  }
}

// ... and through the cut without a gap: directions above it hold their bound all the same.
TEST(ExactPolar, HoldsItsBoundsOnSpectraThatPassTheCutGradually) {
  if (sanitized) GTEST_SKIP() << "too slow with sanitizers";
  Random random(34);
  for (const auto& [rows, cols] : {std::pair<Index, Index>{300, 300}, {160, 400}}) {
    for (const bool powers : {false, true}) {
      const Spectrum spectrum =
          powers ? Spectrum{"log-uniform", 1e8} : Spectrum{"one over i squared"};
      const auto x = matrix_with(spectrum, rows, cols, random);
      const auto q = hard_quality<float>(ExactPolar{}, convert<float>(x));
      EXPECT_TRUE(q.within(true, std::max(rows, cols)))
          << rows << "x" << cols << (powers ? ", powers" : ", squares") << ": error " << q.error
          << ", above one " << q.above_one << ", below one " << q.below_one << ", pairing "
          << q.pairing;
    }
  }
}

template <class T>
void expect_quality(const Spectrum& spectrum, Index rows, Index cols, double scale = 1) {
  const auto seed = static_cast<std::uint64_t>(rows * 131 + cols);
  const auto quality = polar_quality<T>(spectrum, rows, cols, scale, 1, seed);
  EXPECT_TRUE(quality.within(std::is_same_v<T, float>))
      << spectrum.name << " " << spectrum.condition << ", " << rows << "x" << cols << ", scale "
      << scale << ", seed " << seed << ": above one " << quality.above_one << ", below one "
      << quality.below_one << ", nuclear " << quality.nuclear << ", range " << quality.range
      << ", null " << quality.null;
}

template <class T>
class ExactPolarSpectra : public ::testing::Test {};
using Precisions = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ExactPolarSpectra, Precisions);

TYPED_TEST(ExactPolarSpectra, AreMappedToOneForEveryShape) {
  std::vector<std::pair<Index, Index>> sizes = {{1, 1},   {1, 7},    {9, 1},     {2, 2},
                                                {3, 5},   {5, 3},    {8, 8},     {17, 40},
                                                {33, 32}, {64, 190}, {100, 100}, {128, 64}};
  if (!sanitized) sizes.insert(sizes.end(), {{300, 400}, {257, 256}, {400, 192}});
  for (const auto& [rows, cols] : sizes) {
    for (const auto& spectrum : all_spectra<TypeParam>()) {
      expect_quality<TypeParam>(spectrum, rows, cols);
    }
  }
}

TYPED_TEST(ExactPolarSpectra, AreMappedToOneAtEveryScale) {
  for (const double scale : {1e-30, 1e-20, 1e-8, 1e8, 1e20, 1e30}) {
    expect_quality<TypeParam>({"gaussian"}, 100, 100, scale);
    expect_quality<TypeParam>({"log-uniform", 1e6}, 64, 80, scale);
  }
}

TEST(ExactPolar, HoldsForLargeMatrices) {
  if (sanitized) GTEST_SKIP() << "too slow with sanitizers";
  for (const Spectrum& spectrum : {Spectrum{"gaussian"}, {"log-uniform", 1e6}, {"one over i"}}) {
    expect_quality<float>(spectrum, 768, 768);
    expect_quality<float>(spectrum, 512, 2048);
  }
  expect_quality<double>({"log-uniform", 1e10}, 600, 520);
}

TYPED_TEST(ExactPolarSpectra, ResultsDoNotDependOnTheNumberOfThreads) {
  Random random(12);
  const Index n = sanitized ? 260 : 520;
  for (const auto& [rows, cols] : {std::pair<Index, Index>{n, n}, {n, n + 300}, {n + 300, n}}) {
    int kind = 0;
    for (const auto* solver : {"exact", "exact", "exact", "muon", "polar_express(gram)"}) {
      // The exact solver's way depends on the rank.
      const Index rank = std::vector<Index>{n, n / 4, n * 3 / 4}[static_cast<size_t>(kind++ % 3)];
      const auto x = rank == n ? gaussian<TypeParam>(rows, cols, random)
                               : convert<TypeParam>(product(gaussian<double>(rank, rows, random),
                                                            blas::Op::Transpose,
                                                            gaussian<double>(rank, cols, random)));
      std::vector<Matrix<TypeParam>> results;
      for (const int threads : {1, 2, 4}) {
        Workspace workspace;
        Matrix<TypeParam> q(rows, cols);
        polar<TypeParam>(parse_polar_solver(solver), x.view(), q.view(), workspace, nullptr,
                         threads);
        results.push_back(q);
      }
      EXPECT_EQ(results[0], results[1]) << solver << " " << rows << "x" << cols;
      EXPECT_EQ(results[0], results[2]) << solver << " " << rows << "x" << cols;
    }
  }
}

TEST(NewtonSchulz, FollowsItsPolynomialOnTheSingularValues) {
  Random random(4);
  const auto sigma = geometric(6, 30);
  const auto x = with_spectrum(6, 15, sigma, random);
  double frobenius = 0;
  for (const double s : sigma) frobenius = std::hypot(frobenius, s);
  for (const auto* name : {"muon", "you", "polar_express", "cans", "cubic"}) {
    const NewtonSchulz solver = newton_schulz(name);
    std::vector<double> expected;
    for (double s : sigma) {
      s /= solver.safety * frobenius;
      for (const auto& [a, b, c] : solver.steps) s = a * s + b * s * s * s + c * std::pow(s, 5);
      expected.push_back(s);
    }
    for (const bool tall : {false, true}) {
      for (const bool gram : {false, true}) {
        SCOPED_TRACE(::testing::Message() << name << " tall " << tall << " gram " << gram);
        NewtonSchulz variant = solver;
        variant.gram = gram;
        auto found = jacobi_svd(polar_of(PolarSolver(variant), tall ? transpose(x) : x)).sigma;
        std::sort(found.begin(), found.end());
        std::sort(expected.begin(), expected.end());
        for (size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(found[k], expected[k], 1e-10);
      }
    }
  }
}

TEST(NewtonSchulz, GramFormAgreesInSinglePrecision) {
  Random random(5);
  const auto x = gaussian<float>(24, 200, random);
  for (const auto* name : {"muon", "polar_express"}) {
    NewtonSchulz solver = newton_schulz(name);
    const auto plain = polar_of(PolarSolver(solver), x);
    solver.gram = true;
    EXPECT_LE(max_difference(plain, polar_of(PolarSolver(solver), x)), 1e-3) << name;
  }
}

TEST(NewtonSchulz, MuonMapsNormalizedSingularValuesToItsKnownBand) {
  for (double start = 0.003; start <= 1; start *= 1.01) {
    double s = start;
    for (const auto& [a, b, c] : newton_schulz("muon").steps) {
      s = a * s + b * s * s * s + c * std::pow(s, 5);
    }
    EXPECT_GT(s, 0.67);
    EXPECT_LT(s, 1.21);
  }
}

TEST(NewtonSchulz, EnoughStepsConverge) {
  Random random(6);
  const auto x = with_spectrum(12, 12, geometric(12, 100), random);
  for (const auto* text : {"polar_express(steps=14)", "cubic(steps=30)"}) {
    const auto q = polar_of(parse_polar_solver(text), x);
    EXPECT_LE(max_difference(q, reference_polar(x)), 1e-9) << text;
  }
}

TEST(NewtonSchulz, RowRescalingStartsInTheBallAndSavesAStep) {
  Random random(7);
  auto x = gaussian<double>(16, 64, random);
  for (Index j = 0; j < 64; ++j) x(3, j) *= 100;  // one row dominates the Frobenius norm
  Workspace workspace;
  const auto error = [&](const char* text) {
    const auto q = polar_of(parse_polar_solver(text), x);
    return polar_error<double>(x.view(), q.view(), workspace).orthogonality;
  };
  EXPECT_LT(error("cubic(steps=6, rescale_rows)"), error("cubic(steps=7)"));
  for (const bool tall : {false, true}) {
    const auto q =
        polar_of(parse_polar_solver("cubic(steps=1, rescale_rows)"), tall ? transpose(x) : x);
    EXPECT_LE(max_of(jacobi_svd(q).sigma), 1 + 1e-12);
  }
  auto zero_row = x;
  for (Index j = 0; j < 64; ++j) zero_row(5, j) = 0;
  for (const double entry :
       polar_of(parse_polar_solver("muon(rescale_rows, gram)"), zero_row).data) {
    EXPECT_TRUE(std::isfinite(entry));
  }
}

// U diag(sigma / sqrt(sigma² + delta²)) Vᵀ from the singular value decomposition.
Matrix<double> reference_damped(const Matrix<double>& x, double damping) {
  const Svd svd = jacobi_svd(x);
  const double delta = damping * max_of(svd.sigma);
  Matrix<double> scaled = svd.u;
  for (Index k = 0; k < scaled.cols; ++k) {
    const double sigma = svd.sigma[static_cast<size_t>(k)];
    for (Index i = 0; i < scaled.rows; ++i) scaled(i, k) *= sigma / std::hypot(sigma, delta);
  }
  return multiply(scaled, transpose(svd.v));
}

TEST(DampedPolar, IsTheGradientOfTheSmoothedNuclearNorm) {
  Random random(12);
  for (const auto& [rows, cols] : shapes) {
    for (const double condition : {1.0, 1e2, 1e5}) {
      const auto x = with_spectrum(rows, cols, geometric(std::min(rows, cols), condition), random);
      for (const double damping : {1e-3, 0.02, 0.5}) {
        SCOPED_TRACE(::testing::Message() << rows << "x" << cols << ", condition " << condition
                                          << ", damping " << damping);
        const auto expected = reference_damped(x, damping);
        EXPECT_LE(max_difference(polar_of(DampedPolar{damping}, x), expected), 1e-9);
        // Rounding of x xᵀ, 1e-7, moves 1 / sqrt(sigma² + delta²) by its share of delta².
        EXPECT_LE(max_difference(polar_of(DampedPolar{damping}, convert<float>(x)), expected),
                  1e-5 + 1e-7 / (damping * damping));
      }
    }
  }
}

template <class T>
class DampedPolarSpectra : public ::testing::Test {};
TYPED_TEST_SUITE(DampedPolarSpectra, Precisions);

TYPED_TEST(DampedPolarSpectra, StayInTheBallAndPairWithNoMoreThanTheNuclearNorm) {
  std::vector<std::pair<Index, Index>> sizes = {{20, 30}};
  if (!sanitized) sizes = {{60, 60}, {40, 130}, {100, 50}};
  for (const auto& spectrum : all_spectra<TypeParam>()) {
    for (const auto& [rows, cols] : sizes) {
      SCOPED_TRACE(::testing::Message()
                   << spectrum.name << " " << spectrum.condition << ", " << rows << "x" << cols);
      Random random(13);
      const auto x = convert<TypeParam>(matrix_with(spectrum, rows, cols, random));
      const auto q = convert<double>(polar_of(DampedPolar{}, x));
      // (R + delta²)^{-1/2} has the norm 1 / delta, and so its rounding: up to 10 epsilons of it
      // were seen over the kernels of OpenBLAS. The pairing is at most ‖q‖ times the nuclear norm,
      // and reaches that where x has rank 1: it has no other rounding.
      const double rounding =
          16 * std::numeric_limits<TypeParam>::epsilon() / DampedPolar{}.damping;
      EXPECT_LE(max_of(jacobi_svd(q).sigma), 1 + rounding);
      double pairing = 0;
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < cols; ++j) pairing += static_cast<double>(x(i, j)) * q(i, j);
      }
      const auto sigma = jacobi_svd(convert<double>(x)).sigma;
      const double nuclear = sum_of(sigma), largest = max_of(sigma);
      EXPECT_LE(pairing, nuclear * (1 + rounding));
      // No singular value loses more than 0.31 delta of its pairing.
      EXPECT_GE(pairing, nuclear * (1 - rounding) -
                             0.31e-3 * largest * static_cast<double>(std::min(rows, cols)));
    }
  }
}

TEST(PowerIteration, ConvergesToTheLeadingPartOverCallsAndStaysInTheBall) {
  Random random(8);
  for (const bool tall : {false, true}) {
    auto x = with_spectrum(20, 50, geometric(20, 1e6), random);
    if (tall) x = transpose(x);
    const PolarSolver solver = PowerIteration{4};
    Workspace workspace;
    Matrix<double> q(x.rows, x.cols);
    std::vector<double> state(static_cast<size_t>(polar_state_size(solver, x.rows, x.cols)));
    double first = 0, last = 0;
    for (int call = 0; call < 30; ++call) {
      polar<double>(solver, x.view(), q.view(), workspace, state.data());
      EXPECT_LE(max_of(jacobi_svd(q).sigma), 1 + 1e-12);
      (call == 0 ? first : last) = inner(x, q);
    }
    double best = 0;
    for (int k = 0; k < 4; ++k) best += geometric(20, 1e6)[static_cast<size_t>(k)];
    EXPECT_LT(first, best * (1 + 1e-12));
    EXPECT_NEAR(last, best, 1e-10);
  }
}

TEST(PowerIteration, OfFullRankIsExact) {
  Random random(9);
  const auto x = with_spectrum(6, 11, geometric(6, 20), random);
  EXPECT_LE(max_difference(polar_of(PowerIteration{100}, x), reference_polar(x)), 1e-10);
}

TEST(PolarError, MeasuresOrthogonalityAndSymmetry) {
  Random random(10);
  Workspace workspace;
  for (const bool tall : {false, true}) {
    for (const double scale : {1.0, 1e30, 1e-30}) {
      auto x = gaussian<double>(9, 14, random, scale);
      if (tall) x = transpose(x);
      const auto q = polar_of(ExactPolar{}, x);
      const auto exact = polar_error<double>(x.view(), q.view(), workspace);
      EXPECT_LE(exact.orthogonality, 1e-13);
      EXPECT_LE(exact.asymmetry, 1e-13);
      auto half = q;
      for (double& entry : half.data) entry *= 0.5;
      EXPECT_NEAR(polar_error<double>(x.view(), half.view(), workspace).orthogonality, 0.75, 1e-12);
      // Orthogonal, but another one than the polar factor.
      const auto other = polar_of(ExactPolar{}, gaussian<double>(x.rows, x.cols, random));
      EXPECT_GT(polar_error<double>(x.view(), other.view(), workspace).asymmetry, 0.1);
    }
  }
}

TEST(Polar, EverySolverTakesZeroEmptyAndExtremeInput) {
  for (const auto* text : {"exact", "damped", "svd", "muon", "polar_express(gram)",
                           "cans(rescale_rows)", "power(rank=2)", "custom(1.5 -0.5 0)"}) {
    SCOPED_TRACE(text);
    const auto solver = parse_polar_solver(text);
    EXPECT_EQ(polar_of(solver, Matrix<float>(3, 5)).data, std::vector<float>(3 * 8));
    polar_of(solver, Matrix<float>(0, 5));
    polar_of(solver, Matrix<double>(5, 0));
    for (const double scale : {0x1p-1000, 0x1p-100, 0x1p100, 0x1p1000}) {
      Random random(11);
      const auto unit = gaussian<double>(4, 6, random);
      auto scaled = unit;
      for (double& entry : scaled.data) entry *= scale;
      EXPECT_EQ(max_difference(polar_of(solver, unit), polar_of(solver, scaled)), 0);
    }
  }
}

TEST(PolarSolver, PrintsAndParses) {
  for (const auto* text :
       {"exact", "damped", "damped(damping=0.05)", "svd", "power(rank=3)", "muon", "you", "cans",
        "polar_express", "cubic", "muon(steps=7)", "polar_express(steps=8, gram, rescale_rows)",
        "custom(1.5 -0.5 0, 2 -1.5 0.5)", "custom(1.5 -0.5 0, safety=1.1, gram)"}) {
    const auto solver = parse_polar_solver(text);
    EXPECT_EQ(to_string(solver), text);
    EXPECT_EQ(parse_polar_solver(to_string(solver)), solver);
  }
}

TEST(PolarErrors, NameWhatIsAllowed) {
  expect_invalid([] { newton_schulz("moun"); }, {"[newton_schulz]", "'moun'", "'muon'", "cans"});
  expect_invalid([] { newton_schulz("muon", -1); }, {"[newton_schulz]", "-1"});
  expect_invalid([] { parse_polar_solver("power(rank=0)"); }, {"[PowerIteration]", "rank", "0"});
  for (const auto* text : {"damped(damping=1e-4)", "damped(damping=2)", "damped(damping=nan)"}) {
    expect_invalid([=] { parse_polar_solver(text); }, {"[DampedPolar]", "0.001 and 1", "exact"});
  }
  expect_invalid([] { parse_polar_solver("custom(1 2)"); }, {"[parse_polar_solver]", "'1 2'"});
  expect_invalid([] { parse_polar_solver("custom"); },
                 {"[parse_polar_solver]", "coefficients of its steps"});
  expect_invalid([] { parse_polar_solver("muon(step=3)"); }, {"[parse_polar_solver]", "'step=3'"});
  expect_invalid([] { parse_polar_solver("muon(steps=x)"); }, {"[parse_polar_solver]", "'x'"});
  expect_invalid(
      [] {
        validate(PolarSolver(NewtonSchulz{.steps = {{1, 2, NAN}}}));
      },
      {"[NewtonSchulz]", "finite", "nan"});
  Workspace workspace;
  Matrix<float> x(2, 3), q(3, 2);
  expect_invalid([&] { polar<float>(ExactPolar{}, x.view(), q.view(), workspace); },
                 {"[polar]", "3x2", "2x3"});
}

}  // namespace
}  // namespace normball::testing
