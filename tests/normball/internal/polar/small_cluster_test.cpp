// Clusters of tiny and of nearly equal eigenvalues at the low end of a tridiagonal matrix, and the
// polar factors of matrices that have them, against singular value decompositions by Jacobi
// rotations. All inputs are fixed.
#include "normball/internal/polar/exact/small_cluster.h"

#include "normball/internal/polar/exact/small_end.h"
#include "normball/internal/polar/exact/tuning.h"
#include "spectra.h"
#include "testing.h"

namespace normball {
namespace {

using namespace testing;

constexpr Index n = 72;
constexpr double noise = detail::Tuning<double>::noise;

// Ascending eigenvalues up to 1: the cluster, those that follow it, and the rest from 0.01 on.
struct Spectrum {
  std::string name;
  std::vector<double> cluster, others;

  double bound() const { return 1.05 * cluster.back() + 1e-16; }
  double limit() const { return 0.008; }
  std::vector<double> all() const {
    std::vector<double> values = cluster;
    values.insert(values.end(), others.begin(), others.end());
    const auto rest = static_cast<double>(n - std::ssize(values));
    for (double i = 0; i < rest; ++i) values.push_back(0.01 + 0.99 * i / (rest - 1));
    return values;
  }
};

std::vector<double> near(double value, double relative, int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(value * (1 + relative * i));
  return values;
}

const std::vector<Spectrum> spectra = {
    {"one zero", {0}, {}},
    {"zeros", std::vector<double>(7, 0.0), {}},
    {"tiny, nearly equal", near(1e-15, 1e-3, 6), {}},
    {"tiny, over decades", {1e-18, 1e-17, 1e-16, 1e-15, 1e-14}, {}},
    {"nearly equal", near(3e-7, 1e-9, 5), {}},
    {"equal to the last digit", near(2e-5, 2e-16, 8), {}},
    {"spread", {1e-6, 2e-6, 3.1e-6, 4.5e-6, 7e-6}, {}},
    {"zeros, then others", std::vector<double>(4, 0.0), {1e-9, 1e-7, 1e-4, 5e-3}},
    {"others right behind it", near(1e-10, 1e-4, 5), {1.1e-10, 1.2e-10, 1.3e-10}},
    {"others that are equal", near(1e-12, 1e-2, 3), {1e-3, 1e-3, 1e-3, 1e-3}},
};

// scale times a tridiagonal matrix with these eigenvalues, up to rounding.
struct Example {
  Workspace workspace;
  detail::Tridiagonal<double> t;
  Matrix<double> dense{n, n};
  Svd svd;  // of t / scale, ascending

  Example(const std::vector<double>& eigenvalues, double scale)
      : t(detail::Tridiagonal<double>::take(n, workspace)) {
    Random random(7);
    const auto u = orthonormal_rows(n, n, random);
    auto scaled = u;
    for (Index k = 0; k < n; ++k) {
      for (Index i = 0; i < n; ++i) scaled(k, i) *= eigenvalues[static_cast<size_t>(k)] * scale;
    }
    auto a = product(u, blas::Op::Transpose, scaled);
    const detail::Reflectors<double> h{a.view(), workspace.take<double>(n)};
    detail::tridiagonalize(h, t, workspace, 1);
    for (Index i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(i);
      dense(i, i) = t.diagonal[at] / scale;
      if (i + 1 < n) dense(i, i + 1) = dense(i + 1, i) = t.off_diagonal[at] / scale;
    }
    svd = jacobi_svd(dense);
    std::vector<size_t> order(svd.sigma.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t k) { return svd.sigma[k]; });
    const Svd before = svd;
    for (Index k = 0; k < n; ++k) {
      const size_t from = order[static_cast<size_t>(k)];
      svd.sigma[static_cast<size_t>(k)] = before.sigma[from];
      for (Index i = 0; i < n; ++i) svd.v(i, k) = before.v(i, static_cast<Index>(from));
    }
  }

  // Eigenvectors as rows.
  Matrix<double> vectors(size_t first, size_t count) const {
    Matrix<double> rows(static_cast<Index>(count), n);
    for (Index k = 0; k < rows.rows; ++k) {
      for (Index i = 0; i < n; ++i) rows(k, i) = svd.v(i, static_cast<Index>(first) + k);
    }
    return rows;
  }
};

struct Found {
  bool well = false;
  std::vector<double> values;
  Matrix<double> vectors;
};

// The cluster alone, with what is known of the others.
Found cluster_of(Example& example, const Spectrum& spectrum, double scale) {
  const size_t count = spectrum.cluster.size();
  Found found{.values = std::vector<double>(count),
              .vectors = Matrix<double>(static_cast<Index>(count), n)};
  const auto others = example.vectors(count, spectrum.others.size());
  found.well =
      detail::small_cluster(example.t, spectrum.bound() * scale, spectrum.limit() * scale, scale,
                            others.view(), found.values, found.vectors.view(), example.workspace);
  return found;
}

// How far the rows are from orthonormal, from the span of the first eigenvectors of the reference,
// and from eigenvectors with these values.
void expect_eigenpairs(const Example& example, const Found& found, double scale,
                       const std::string& name) {
  const size_t count = found.values.size();
  const auto reference = example.vectors(0, count);
  const auto inner = multiply(found.vectors, transpose(found.vectors));
  const auto projected = multiply(multiply(found.vectors, transpose(reference)), reference);
  const auto times = multiply(found.vectors, example.dense);
  double orthonormal = 0, outside = 0, residual = 0, value = 0;
  for (Index k = 0; k < found.vectors.rows; ++k) {
    const auto at = static_cast<size_t>(k);
    const double own = found.values[at] / scale;
    value = std::max(value, std::abs(own - example.svd.sigma[at]));
    for (Index j = 0; j < found.vectors.rows; ++j) {
      orthonormal = std::max(orthonormal, std::abs(inner(k, j) - (k == j ? 1 : 0)));
    }
    for (Index i = 0; i < n; ++i) {
      outside = std::max(outside, std::abs(found.vectors(k, i) - projected(k, i)));
      residual = std::max(residual, std::abs(times(k, i) - own * found.vectors(k, i)));
    }
  }
  EXPECT_TRUE(std::ranges::is_sorted(found.values)) << name;
  EXPECT_LE(orthonormal, 1e-14) << name;
  EXPECT_LE(residual, 4 * noise) << name;
  EXPECT_LE(value, 4 * noise) << name;
  // Rounding over the distance to what follows.
  const double gap = example.svd.sigma[count] - example.svd.sigma[count - 1];
  EXPECT_LE(outside, 2e-12 + 4 * noise / gap) << name;
}

TEST(SmallCluster, IsThatOfTheSingularValueDecomposition) {
  for (const double scale : {1.0, 3e-140, 5e120}) {
    for (const auto& spectrum : spectra) {
      const std::string name = spectrum.name + ", scale " + std::to_string(std::log10(scale));
      Example example(spectrum.all(), scale);
      const auto found = cluster_of(example, spectrum, scale);
      ASSERT_TRUE(found.well) << name;
      expect_eigenpairs(example, found, scale, name);
    }
  }
}

// Where eigenvalues of the cluster are far apart beside rounding, each has its own vector.
TEST(SmallCluster, TellsItsMembersApart) {
  const Spectrum spectrum = spectra[6];
  ASSERT_EQ(spectrum.name, "spread");
  Example example(spectrum.all(), 1);
  const auto found = cluster_of(example, spectrum, 1);
  ASSERT_TRUE(found.well);
  const auto products = multiply(found.vectors, transpose(example.vectors(0, 5)));
  for (Index k = 0; k < 5; ++k) EXPECT_NEAR(std::abs(products(k, k)), 1, 1e-15 / 1e-7);
}

TEST(SmallCluster, HasTheSameBitsAgain) {
  for (const auto& spectrum : spectra) {
    Example example(spectrum.all(), 1);
    const auto first = cluster_of(example, spectrum, 1), again = cluster_of(example, spectrum, 1);
    EXPECT_EQ(first.values, again.values) << spectrum.name;
    EXPECT_EQ(first.vectors.data, again.vectors.data) << spectrum.name;
  }
}

// Not separated from the rest, or not as many as are asked for.
TEST(SmallCluster, RefusesWhatItCannotTell) {
  Spectrum wide{"as wide as its distance", {0.0, 0.003}, {}};
  Example far(wide.all(), 1);
  EXPECT_FALSE(cluster_of(far, wide, 1).well);
  Spectrum few{"one too many", std::vector<double>(4, 0.0), {}};
  Example example(few.all(), 1);
  few.cluster.push_back(0);
  EXPECT_FALSE(cluster_of(example, few, 1).well);
}

// What calls it finds the cluster by itself, whatever lies behind it.
TEST(SmallEnd, FindsClustersByItself) {
  for (const double scale : {1.0, 3e-140, 5e120}) {
    for (const auto& spectrum : spectra) {
      const std::string name = spectrum.name + ", scale " + std::to_string(std::log10(scale));
      const size_t count = spectrum.cluster.size() + spectrum.others.size();
      Example example(spectrum.all(), scale);
      Found found{.values = std::vector<double>(count),
                  .vectors = Matrix<double>(static_cast<Index>(count), n)};
      ASSERT_TRUE(detail::smallest_eigenpairs<double>(example.t, spectrum.limit() * scale, scale,
                                                      found.values, found.vectors.view(),
                                                      example.workspace))
          << name;
      expect_eigenpairs(example, found, scale, name);
    }
  }
}

// The exact polar factor of matrices with such singular values: one to a singular value above the
// cut, however close to others, nothing below it.
TEST(SmallCluster, PolarFactorsOfMatricesWithThem) {
  constexpr Index rows = 80, cols = 96, small = 9;
  struct Case {
    std::string name;
    double least, relative, tolerance;  // the error is rounding over the least singular value
  };
  for (const auto& [name, least, relative, tolerance] :
       {Case{"zeros", 0, 0, 1e-11}, Case{"below the cut", 1e-17, 1e-2, 1e-11},
        Case{"tiny, nearly equal", 1e-8, 1e-7, 3e-7}, Case{"nearly equal", 1e-4, 1e-10, 1e-10},
        Case{"equal", 1e-4, 0, 1e-10}, Case{"small, over decades", 1e-9, 1e3, 3e-6}}) {
    Random random(11);
    auto u = orthonormal_rows(rows, rows, random);
    const auto v = orthonormal_rows(rows, cols, random);
    for (Index k = 0; k < rows; ++k) {
      const double i = static_cast<double>(k);
      const double sigma = k < small ? least * (1 + relative * i) : 0.1 + 0.01 * i;
      for (Index j = 0; j < rows; ++j) u(k, j) *= sigma;
    }
    const auto x = product(u, blas::Op::Transpose, v);
    Matrix<double> q(rows, cols);
    Workspace workspace;
    polar<double>(ExactPolar{}, x.view(), q.view(), workspace, nullptr, 1);
    EXPECT_LE(max_difference(q, reference_polar(x, 2e-14)), tolerance) << name;
  }
}

}  // namespace
}  // namespace normball
