#include "normball/norms.h"

#include <limits>
#include <sstream>

#include "normball/internal/kernels/kernels.h"
#include "testing.h"

namespace normball::testing {
namespace {

// The norms written once more, from their definitions and in double.
struct Reference {
  std::string text;
  // The unit ball's size in its geometry, and norm and dual norm of the geometry.
  double (*scale)(double rows, double cols);
  char geometry;  // f: Frobenius, m: max, r: rows, c: columns, s: spectral
};

const std::vector<Reference>& references() {
  using std::max;
  using std::sqrt;
  static const std::vector<Reference> all = {
      {"euclidean", [](double, double) { return 1.0; }, 'f'},
      {"rms", [](double r, double c) { return sqrt(r * c); }, 'f'},
      {"sign", [](double, double c) { return 1 / c; }, 'm'},
      {"sign(unit)", [](double, double) { return 1.0; }, 'm'},
      {"sign(transposed)", [](double r, double) { return 1 / r; }, 'm'},
      {"row", [](double, double c) { return 1 / sqrt(c); }, 'r'},
      {"row(transposed)", [](double r, double) { return 1 / sqrt(r); }, 'c'},
      {"col", [](double r, double) { return sqrt(r); }, 'c'},
      {"col(transposed)", [](double, double c) { return sqrt(c); }, 'r'},
      {"spectral", [](double r, double c) { return sqrt(r / c); }, 's'},
      {"spectral(input)", [](double r, double c) { return max(1.0, sqrt(r / c)); }, 's'},
      {"spectral(onehot)", [](double r, double) { return sqrt(r); }, 's'},
      {"spectral(unit)", [](double, double) { return 1.0; }, 's'},
      {"spectral(transposed)", [](double r, double c) { return sqrt(c / r); }, 's'},
      {"spectral(solver=svd)", [](double r, double c) { return sqrt(r / c); }, 's'},
  };
  return all;
}

std::vector<double> lengths(const Matrix<double>& x, bool rows) {
  std::vector<double> result(static_cast<size_t>(rows ? x.rows : x.cols));
  for (Index i = 0; i < x.rows; ++i) {
    for (Index j = 0; j < x.cols; ++j) {
      auto& length = result[static_cast<size_t>(rows ? i : j)];
      length = std::hypot(length, x(i, j));
    }
  }
  return result;
}

double reference_norm(char geometry, const Matrix<double>& x) {
  double frobenius = 0, max = 0;
  for (const double value : x.data) {
    frobenius = std::hypot(frobenius, value);
    max = std::max(max, std::abs(value));
  }
  switch (geometry) {
    case 'f':
      return frobenius;
    case 'm':
      return max;
    case 's':
      return max_of(jacobi_svd(x).sigma);
    default:
      return max_of(lengths(x, geometry == 'r'));
  }
}

double reference_dual(char geometry, const Matrix<double>& d) {
  double sum = 0;
  for (const double value : d.data) sum += std::abs(value);
  switch (geometry) {
    case 'f':
      return reference_norm('f', d);
    case 'm':
      return sum;
    case 's':
      return sum_of(jacobi_svd(d).sigma);
    default:
      return sum_of(lengths(d, geometry == 'r'));
  }
}

Index random_side(Random& random) {
  const auto kind = random.below(10);
  if (kind == 0) return 1;
  if (kind == 1) return static_cast<Index>(random.below(3));  // 0, 1 or 2
  if (kind == 2) return 1 + static_cast<Index>(random.below(40));
  return 1 + static_cast<Index>(random.below(12));
}

template <class T>
Matrix<T> random_input(Random& random) {
  const Index rows = random_side(random), cols = random_side(random);
  const auto padding = static_cast<Index>(random.below(2) * random.below(5));
  Matrix<T> x = gaussian<T>(rows, cols, random, 1, padding);
  switch (random.below(8)) {
    case 0:  // zero
      for (auto& value : x.data) value = 0;
      break;
    case 1: {  // rank deficient
      for (Index i = 1; i < rows; ++i) {
        for (Index j = 0; j < cols; ++j) x(i, j) = x(i / 2, j) * (i % 2 ? T(2) : T(1));
      }
      break;
    }
    case 2:  // sparse
      for (auto& value : x.data) value = random.below(4) == 0 ? value : T(0);
      break;
    case 3:  // constant
      for (auto& value : x.data) value = T(-3);
      break;
    case 4:  // rows over many decades
      for (Index i = 0; i < rows; ++i) {
        const double factor = std::pow(10.0, static_cast<double>(random.below(7)) - 3);
        for (Index j = 0; j < cols; ++j) x(i, j) = static_cast<T>(x(i, j) * factor);
      }
      break;
    default:
      break;
  }
  const double scales[] = {1, 1, 1e30, 1e-30, 1e5, 1e-8};
  const double scale = scales[random.below(6)];
  for (auto& value : x.data) value = static_cast<T>(value * scale);
  return x;
}

template <class T>
class NormProperties : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(NormProperties, Types);

// 2 types x 20,000 seeds; each seed is a new shape, kind of input, scale and norm.
TYPED_TEST(NormProperties, HoldForRandomShapesScalesAndRanks) {
  using T = TypeParam;
  const bool single = std::is_same_v<T, float>;
  const double ball = single ? 1e-5 : 1e-12, tight = single ? 1e-5 : 1e-11;
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    Random random(seed);
    const auto& reference = references()[seed % references().size()];
    const Norm norm = parse_norm(reference.text);
    const Matrix<T> d = random_input<T>(random);
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", " << reference.text << ", " << d.rows
                                      << "x" << d.cols << " stride " << d.stride);
    const double scale = reference.scale(static_cast<double>(std::max<Index>(1, d.rows)),
                                         static_cast<double>(std::max<Index>(1, d.cols)));
    const auto exact_d = convert<double>(d);
    const double dual = scale * reference_dual(reference.geometry, exact_d);

    Matrix<T> u(d.rows, d.cols, 2);
    const double value = lmo(norm, d.view(), u.view());
    for (const T entry : u.data) ASSERT_TRUE(std::isfinite(entry));
    ASSERT_LE(reference_norm(reference.geometry, convert<double>(u)) / scale, 1 + ball);
    ASSERT_LE(normball::norm(norm, u.view()), 1 + ball);
    ASSERT_NEAR(-inner(d, u), dual, tight * dual);
    ASSERT_NEAR(value, dual, tight * dual);
    ASSERT_NEAR(dual_norm(norm, d.view()), dual, tight * dual);

    Matrix<T> s(d.rows, d.cols);
    ASSERT_NEAR(sharp(norm, d.view(), s.view()), dual, tight * dual);
    const double length = reference_norm(reference.geometry, convert<double>(s)) / scale;
    ASSERT_NEAR(inner(d, s), dual * dual, 2 * tight * dual * dual);
    ASSERT_NEAR(length * length, dual * dual, 2 * tight * dual * dual);

    // A power of two changes no digit; any other factor may turn the null space of a singular d.
    Matrix<T> scaled = d, again(d.rows, d.cols);
    for (auto& entry : scaled.data) entry *= T(0.25);
    lmo(norm, scaled.view(), again.view());
    ASSERT_LE(max_difference(u, again), 1e-6 * scale);
    const double factor = 0.5 + random.uniform();
    for (Index i = 0; i < d.rows; ++i) {
      for (Index j = 0; j < d.cols; ++j) scaled(i, j) = static_cast<T>(d(i, j) * factor);
    }
    lmo(norm, scaled.view(), again.view());
    ASSERT_NEAR(-inner(d, again), dual, tight * dual);
  }
}

TYPED_TEST(NormProperties, ScaleInvariantEntryByEntryWhereTheLmoIsUnique) {
  using T = TypeParam;
  Random random(7);
  for (const auto& reference : references()) {
    SCOPED_TRACE(reference.text);
    const auto d = gaussian<T>(7, 12, random);
    Matrix<T> scaled(7, 12), a(7, 12), b(7, 12);
    for (Index i = 0; i < 7; ++i) {
      for (Index j = 0; j < 12; ++j) scaled(i, j) = T(3.7) * d(i, j);
    }
    lmo(parse_norm(reference.text), d.view(), a.view());
    lmo(parse_norm(reference.text), scaled.view(), b.view());
    EXPECT_LE(max_difference(a, b), (std::is_same_v<T, float> ? 3e-6 : 1e-13));
  }
}

TYPED_TEST(NormProperties, ExtremeFiniteInputNeverGivesNan) {
  using T = TypeParam;
  const T extremes[] = {std::numeric_limits<T>::max(), std::numeric_limits<T>::min(),
                        std::numeric_limits<T>::denorm_min(), -std::numeric_limits<T>::max()};
  for (const auto& reference : references()) {
    for (const T extreme : extremes) {
      for (const Index cols : {1, 3}) {
        SCOPED_TRACE(::testing::Message() << reference.text << " of " << extreme);
        Matrix<T> d(2, cols), u(2, cols);
        d(0, 0) = extreme;
        lmo(parse_norm(reference.text), d.view(), u.view());
        for (const T entry : u.data) EXPECT_TRUE(std::isfinite(entry));
        EXPECT_NEAR(normball::norm(parse_norm(reference.text), u.view()), 1, 1e-5);
      }
    }
  }
}

TYPED_TEST(NormProperties, InitializationLandsOnTheSphere) {
  using T = TypeParam;
  Random random(11);
  for (const auto& reference : references()) {
    for (const auto& dimensions :
         std::vector<std::vector<Index>>{{6, 9}, {9, 6}, {8, 3, 5}, {4, 3, 3, 3}, {1, 7}}) {
      SCOPED_TRACE(reference.text);
      const Shape shape = flatten(dimensions);
      const Norm norm = parse_norm(reference.text);
      Matrix<T> w(shape.rows, shape.cols);
      initialize(norm, shape, 2.5, w.view(), random);
      EXPECT_NEAR(normball::norm(norm, w.view(), &shape), 2.5, 1e-5);
    }
  }
  Matrix<T> bias(5, 1, {1, 2, 3, 4, 5});
  const std::vector<Index> vector_shape = {5};
  initialize(Norm(Rms{}), flatten(vector_shape), 1, bias.view(), random);
  EXPECT_EQ(bias, Matrix<T>(5, 1));
}

TEST(Norms, ConvolutionsDivideByTheKernelAndUseItsChannels) {
  // (out, in, k, k): the LMO is (1/k²) √(out/in) UVᵀ of the flattened matrix; 1-d: 1/k.
  Random random(3);
  const auto check = [&](const std::vector<Index>& dimensions, double expected) {
    const Shape shape = flatten(dimensions);
    const auto d = gaussian<double>(shape.rows, shape.cols, random);
    Matrix<double> u(shape.rows, shape.cols);
    lmo(Norm(Spectral{}), d.view(), u.view(), &shape);
    for (const double sigma : jacobi_svd(u).sigma) EXPECT_NEAR(sigma, expected, 1e-12);
  };
  check({8, 2, 3, 3}, std::sqrt(8.0 / 2) / 9);
  check({2, 8, 5, 5}, std::sqrt(2.0 / 8) / 25);
  check({8, 2, 3}, std::sqrt(8.0 / 2) / 3);
  check({3, 12}, std::sqrt(3.0 / 12));
}

TEST(Norms, ScalarsAndVectorsAreMatricesOfOneColumn) {
  Matrix<double> d(3, 1, {1, -2, 2}), u(3, 1);
  const std::vector<Index> dimensions = {3};
  const Shape vector = flatten(dimensions), scalar = flatten({});
  lmo(Norm(Auto{}), d.view(), u.view(), &vector);  // Rms
  EXPECT_LE(max_difference(
                u, Matrix<double>(3, 1, {-1 / std::sqrt(3), 2 / std::sqrt(3), -2 / std::sqrt(3)})),
            1e-15);
  lmo(Norm(Sign{}), d.view(), u.view(), &vector);
  EXPECT_EQ(u, Matrix<double>(3, 1, {-1, 1, -1}));
  for (const auto* name : {"euclidean", "rms", "sign", "row", "col", "spectral", "auto"}) {
    Matrix<double> one(1, 1, {-4}), result(1, 1);
    EXPECT_EQ(lmo(parse_norm(name), one.view(), result.view(), &scalar), 4) << name;
    EXPECT_EQ(result(0, 0), 1) << name;
  }
}

TEST(Norms, RolesChooseNormsAndScales) {
  EXPECT_EQ(parse_norm("input"), Norm(Spectral{.scale = SpectralScale::Input}));
  EXPECT_EQ(parse_norm("onehot"), Norm(ColNorm{.transposed = true}));
  EXPECT_EQ(parse_norm("hidden"), Norm(Spectral{}));
  EXPECT_EQ(parse_norm("output"), Norm(Sign{}));
  EXPECT_EQ(parse_norm("bias"), Norm(Rms{}));
  // A (vocab, dim) embedding: each token's vector gets RMS norm 1.
  Random random(5);
  const auto d = gaussian<double>(10, 4, random);
  Matrix<double> u(10, 4);
  lmo(norm_for(Role::OneHot), d.view(), u.view());
  for (Index i = 0; i < 10; ++i) {
    double square = 0;
    for (Index j = 0; j < 4; ++j) square += u(i, j) * u(i, j);
    EXPECT_NEAR(std::sqrt(square / 4), 1, 1e-14);
  }
}

TEST(Norms, PrintAndParseRoundTrip) {
  const std::vector<Norm> norms = {
      Auto{},
      Euclidean{},
      Rms{},
      Sign{},
      Sign{.unit = true, .transposed = true},
      Spectral{},
      Spectral{.scale = SpectralScale::OneHot, .transposed = true},
      Spectral{.solver = newton_schulz("polar_express", 8)},
      Spectral{.scale = SpectralScale::Unit, .solver = PowerIteration{3}},
      ColNorm{},
      ColNorm{.transposed = true},
      RowNorm{.transposed = true}};
  for (const auto& norm : norms) {
    EXPECT_EQ(parse_norm(to_string(norm)), norm) << to_string(norm);
    for (const auto& other : norms) {
      EXPECT_EQ(norm == other, to_string(norm) == to_string(other));
    }
  }
  std::ostringstream out;
  out << Norm(Spectral{.solver = newton_schulz("muon")});
  EXPECT_EQ(out.str(), "spectral(solver=muon)");
  EXPECT_EQ(parse_norm(" spectral( onehot ,solver = polar_express(steps=3, gram) ) "), [] {
    auto solver = newton_schulz("polar_express", 3);
    solver.gram = true;
    return Norm(Spectral{.scale = SpectralScale::OneHot, .solver = solver});
  }());
}

// The nuclear-norm ball has rank-one LMOs: a norm the library does not have.
class Nuclear : public NormOracle {
 public:
  using NormOracle::lmo;
  void lmo(ConstMatrixView<double> d, MatrixView<double> out) const override {
    Matrix<double> copy(d.rows, d.cols);
    for (Index i = 0; i < d.rows; ++i) {
      for (Index j = 0; j < d.cols; ++j) copy(i, j) = d(i, j);
    }
    const Svd svd = jacobi_svd(copy);
    const auto top = std::max_element(svd.sigma.begin(), svd.sigma.end()) - svd.sigma.begin();
    for (Index i = 0; i < d.rows; ++i) {
      for (Index j = 0; j < d.cols; ++j) {
        out(i, j) = svd.sigma[static_cast<size_t>(top)] > 0 ? -svd.u(i, top) * svd.v(j, top) : 0;
      }
    }
  }
  std::string name() const override { return "nuclear"; }
};

TEST(Norms, AUsersNormNeedsOnlyItsLmo) {
  const Norm norm = Custom{std::make_shared<Nuclear>()};
  Random random(1);
  const auto d = gaussian<float>(5, 8, random);
  Matrix<float> u(5, 8);
  const double sigma = max_of(jacobi_svd(convert<double>(d)).sigma);
  EXPECT_NEAR(lmo(norm, d.view(), u.view()), sigma, 1e-6);
  EXPECT_NEAR(dual_norm(norm, d.view()), sigma, 1e-6);
  EXPECT_EQ(to_string(norm), "nuclear");
  EXPECT_EQ(norm, Norm(norm));
  EXPECT_NE(norm, Norm(Custom{std::make_shared<Nuclear>()}));
  expect_invalid([&] { normball::norm(norm, u.view()); }, {"[NormOracle::norm]", "nuclear"});
}

// A user who forgot the minus sign.
struct Maximizer final : NormOracle {
  using NormOracle::lmo;
  void lmo(ConstMatrixView<double> d, MatrixView<double> out) const override {
    for (Index i = 0; i < d.rows; ++i) {
      for (Index j = 0; j < d.cols; ++j) out(i, j) = d(i, j) > 0 ? 1 : d(i, j) < 0 ? -1 : 0;
    }
  }
  std::string name() const override { return "maximizer"; }
};

TEST(NormText, HasOneScaling) {
  expect_invalid([] { parse_norm("spectral(input, onehot)"); },
                 {"[parse_norm]", "'input'", "'onehot'", "choose one"});
}

TEST(NormText, AnUnknownOptionIsAnsweredWithThoseThereAre) {
  expect_invalid([] { parse_norm("spectral(foo)"); },
                 {"[parse_norm]", "does not take 'foo'", "transposed", "input", "solver=..."});
  expect_invalid([] { parse_norm("sign(units=1)"); }, {"'units=1'", "unit", "transposed"});
  expect_invalid([] { parse_norm("rms(x)"); }, {"'x'", "it takes nothing"});
  expect_invalid([] { parse_step_rule("clipped(rho=3, beta=2)"); },
                 {"'beta=2'", "it takes rho=..."});
}

TEST(OwnNorm, WithTheWrongSignIsRefused) {
  const Norm norm = Custom{std::make_shared<Maximizer>()};
  Random random(3);
  auto d = gaussian<double>(4, 5, random);
  auto f = gaussian<float>(4, 5, random);
  Matrix<double> out(4, 5);
  Matrix<float> out_f(4, 5);
  expect_invalid([&] { lmo(norm, d.view(), out.view()); },
                 {"[NormOracle::lmo]", "'maximizer'", "minus sign"});
  expect_invalid([&] { lmo(norm, f.view(), out_f.view()); }, {"'maximizer'", "minus sign"});
  d.data.assign(d.data.size(), 0.0);
  EXPECT_EQ(lmo(norm, d.view(), out.view()), 0);
}

struct Negative final : NormOracle {
  using NormOracle::lmo;
  void lmo(ConstMatrixView<double>, MatrixView<double>) const override {}
  double norm(ConstMatrixView<double>) const override { return -2; }
  std::string name() const override { return "negative"; }
};

TEST(OwnNorm, ThatIsNegativeIsRefused) {
  const Matrix<double> x(2, 2);
  expect_invalid([&] { normball::norm(Custom{std::make_shared<Negative>()}, x.view()); },
                 {"[NormOracle::norm]", "'negative'", "-2"});
}

TEST(NormText, ASolverTakesAtLeastOneStep) {
  expect_invalid([] { parse_norm("spectral(solver=muon(steps=0))"); },
                 {"[parse_polar_solver]", "steps", "at least 1", "0"});
  EXPECT_EQ(parse_norm("spectral(solver=muon(steps=5))"), parse_norm("spectral(solver=muon)"));
}

// The LMO does not depend on the length of d, and norms are linear in it: large entries, whose
// lengths overflow, have those of small ones.
TEST(Norms, OfLargeEntriesAreThoseOfSmallOnes) {
  Random random(5);
  for (const char* text : {"euclidean", "rms", "row", "col", "sign", "spectral"}) {
    const Norm n = parse_norm(text);
    auto small = gaussian<double>(6, 5, random);
    const double largest = max_abs<double>(small.view());
    for (auto& entry : small.data) entry /= largest;
    auto large = small;
    const double factor = std::ldexp(1, 1023);
    for (auto& entry : large.data) entry *= factor;
    Matrix<double> expected(6, 5), got(6, 5);
    const double dual = lmo(n, small.view(), expected.view());
    const double scaled = lmo(n, large.view(), got.view());
    EXPECT_LE(max_difference(expected, got), 1e-14) << text;
    EXPECT_GT(max_abs<double>(got.view()), 0) << text;
    const auto expect_scaled = [&](double value, double of_small) {
      if (std::isinf(factor * of_small)) {
        EXPECT_EQ(value, factor * of_small) << text;
      } else {
        EXPECT_NEAR(value / factor, of_small, 1e-13 * of_small) << text;
      }
    };
    expect_scaled(scaled, dual);
    expect_scaled(dual_norm(n, large.view()), dual_norm(n, small.view()));
    expect_scaled(normball::norm(n, large.view()), normball::norm(n, small.view()));
    expect_invalid([&] { sharp(n, large.view(), got.view()); }, {"[sharp]", "overflows"});
  }
}

TEST(Norms, LmoWritesInPlaceButNotAcross) {
  Random random(6);
  for (const char* text : {"euclidean", "rms", "row", "col", "sign", "spectral"}) {
    const Norm n = parse_norm(text);
    const auto d = gaussian<double>(4, 3, random);
    Matrix<double> expected(4, 3);
    lmo(n, d.view(), expected.view());
    auto same = d;
    lmo(n, same.view(), same.view());
    EXPECT_EQ(same, expected) << text;
    std::vector<double> memory(20, 1.0);
    const MatrixView<double> a(memory.data(), 4, 3), b(memory.data() + 2, 4, 3);
    expect_invalid([&] { lmo(n, a, b); }, {"[lmo]", "overlap"});
    expect_invalid([&] { sharp(n, b, a); }, {"[sharp]", "overlap"});
  }
}

// A user's norm that would say 1 of anything.
struct AlwaysOne final : NormOracle {
  void lmo(ConstMatrixView<double>, MatrixView<double> out) const override {
    for (Index i = 0; i < out.rows; ++i) std::fill_n(out.row(i), out.cols, 0.0);
  }
  double norm(ConstMatrixView<double>) const override { return 1; }
};

template <class T>
void expect_nonfinite_norms() {
  std::vector<Norm> norms = {Custom{std::make_shared<AlwaysOne>()}};
  for (const char* text : {"spectral", "spectral(solver=svd)", "spectral(transposed)", "sign",
                           "row", "col", "row(transposed)", "rms", "euclidean", "auto"}) {
    norms.push_back(parse_norm(text));
  }
  constexpr T nan = std::numeric_limits<T>::quiet_NaN(), inf = std::numeric_limits<T>::infinity();
  Random random(1);
  for (const auto& n : norms) {
    for (const auto& [rows, cols] : {std::pair<Index, Index>{1, 1}, {5, 1}, {1, 40}, {33, 50}}) {
      for (const Index padding : {0, 3}) {
        auto x = gaussian<T>(rows, cols, random, 1, padding);
        const auto any = [&] {
          return static_cast<Index>(random.below(static_cast<std::uint64_t>(rows * cols)));
        };
        const Index bad = any();
        x(bad / cols, bad % cols) = random.below(2) ? inf : -inf;
        EXPECT_EQ(norm(n, x.view()), HUGE_VAL) << n << " " << rows << "x" << cols;
        EXPECT_EQ(dual_norm(n, x.view()), HUGE_VAL) << n << " " << rows << "x" << cols;
        const Index worse = any();
        x(worse / cols, worse % cols) = nan;
        EXPECT_TRUE(std::isnan(norm(n, x.view()))) << n << " " << rows << "x" << cols;
        EXPECT_TRUE(std::isnan(dual_norm(n, x.view()))) << n << " " << rows << "x" << cols;
        Matrix<T> out(rows, cols);
        expect_invalid([&] { lmo(n, x.view(), out.view()); }, {"[lmo]", "not finite"});
        expect_invalid([&] { sharp(n, x.view(), out.view()); }, {"[sharp]", "not finite"});
      }
    }
  }
}

TEST(NonFiniteNorms, AreNanOrElseInfinityInEveryNorm) {
  expect_nonfinite_norms<float>();
  expect_nonfinite_norms<double>();
}

TEST(NonFiniteNorms, PassThroughProducts) {
  const double nan = std::nan("");
  for (const auto combination : {Combination::Max, Combination::Sum, Combination::L2}) {
    std::vector<double> weights(3);
    for (const auto& values : {std::vector<double>{1, nan, 2}, {nan, 1, 2}, {1, 2, nan}}) {
      EXPECT_TRUE(std::isnan(combine_norms(combination, values)));
      EXPECT_TRUE(std::isnan(combine_duals(combination, values, weights)));
    }
    EXPECT_EQ(combine_norms(combination, std::vector<double>{1, HUGE_VAL, 2}), HUGE_VAL);
  }
  EXPECT_TRUE(std::isnan(l2_norm(&nan, 1)));
}

TEST(Shapes, AKernelCountsTheProductOfItsSides) {
  const std::vector<Index> dimensions = {8, 2, 3, 5};
  const Shape shape = flatten(dimensions);
  EXPECT_EQ(shape, (Shape{.rows = 8, .cols = 30, .kernel = 15, .rank = 4}));
  EXPECT_NEAR(resolve(Spectral{}, shape).scale, std::sqrt(8.0 / 2) / 15, 1e-15);
  const Shape of_the_readme = {.rows = 64, .cols = 32 * 9, .kernel = 9, .rank = 4};
  EXPECT_EQ(of_the_readme, flatten(std::array<Index, 4>{64, 32, 3, 3}));
}

TEST(Shapes, AreValidatedWhereverTheyEnter) {
  constexpr Index huge = Index{1} << 40;
  const std::vector<std::pair<Shape, std::vector<std::string>>> bad = {
      {{.rows = -4, .cols = 7}, {"must not be negative", "-4"}},
      {{.rows = 4, .cols = -7}, {"must not be negative", "-7"}},
      {{.rows = 4, .cols = 7, .rank = -1}, {"must not be negative", "-1"}},
      {{.rows = 4, .cols = 7, .kernel = 0}, {"kernel 0", "at least 1"}},
      {{.rows = 4, .cols = 7, .kernel = -1}, {"kernel -1", "at least 1"}},
      {{.rows = 4, .cols = 7, .kernel = 3}, {"kernel 3", "cols 7", "divide"}},
      {{.rows = huge, .cols = huge}, {"too large"}},
      {{.rows = INT64_MAX, .cols = 0}, {"too large"}},
      {{.rows = INT64_MAX, .cols = 2}, {"too large"}}};
  Random random(1);
  for (const auto& [shape, parts] : bad) {
    expect_invalid([&, &s = shape] { validate(s); }, parts);
    for (const Norm& n : {Norm(Auto{}), Norm(Sign{}), Norm(Rms{}), Norm(RowNorm{})}) {
      expect_invalid([&, &s = shape] { resolve(n, s); }, parts);
      expect_invalid(
          [&, &s = shape] {
            Optimizer<float>(scion(0.1, 1), {{.name = "w", .shape = s, .norm = n}});
          },
          parts);
      expect_invalid([&, &s = shape] { ProductNorm({{.name = "w", .shape = s, .norm = n}}); },
                     {"'w'"});
      Matrix<float> x(4, 7), out(4, 7);
      for (const int rank : {1, 2}) {
        Shape s = shape;
        if (s.rank >= 0) s.rank = rank;
        expect_invalid([&] { lmo(n, x.view(), out.view(), &s); }, {"]"});
        expect_invalid([&] { norm(n, x.view(), &s); }, {"]"});
        expect_invalid([&] { dual_norm(n, x.view(), &s); }, {"]"});
        expect_invalid([&] { initialize(n, s, 1, x.view(), random); }, {"]"});
        expect_invalid([&] { sample_sphere(n, s, 1, x.view(), random); }, {"]"});
      }
    }
  }
  float one = 1;
  for (const MatrixView<float> view :
       {MatrixView<float>(&one, huge, huge), {&one, 3, 1, INT64_MAX / 2}, {&one, 1, INT64_MAX}}) {
    expect_invalid([&] { norm(Norm(Sign{}), view); }, {"[norm]", "too large"});
    expect_invalid([&] { lmo(Norm(Sign{}), view, view); }, {"[lmo]", "too large"});
  }
}

TEST(NormErrors, NameFunctionValueAndWhatIsAllowed) {
  Matrix<float> d(2, 3), out(3, 2), good(2, 3);
  expect_invalid([] { parse_norm("spektral"); },
                 {"[parse_norm]", "'spektral'", "did you mean 'spectral'", "euclidean"});
  expect_invalid([] { parse_norm("sign(units)"); }, {"[parse_norm]", "'units'"});
  expect_invalid([] { parse_norm(""); }, {"[parse_norm]", "name"});
  expect_invalid([] { parse_norm("sign(unit"); }, {"[parse_norm]", "')'"});
  expect_invalid([] { parse_norm("spectral(solver=exact, solver=svd)"); },
                 {"[parse_norm]", "solver=... twice"});
  expect_invalid([] { parse_norm("spectral(solver=muons)"); },
                 {"[parse_polar_solver]", "'muons'", "'muon'"});
  expect_invalid([&] { lmo(Norm(Sign{}), d.view(), out.view()); }, {"[lmo]", "3x2", "2x3"});
  expect_invalid([&] { lmo(Norm(Sign{}), MatrixView<float>(nullptr, 2, 3), good.view()); },
                 {"[lmo]", "d has null data"});
  expect_invalid([&] { lmo(Norm(Sign{}), MatrixView<float>(d.data.data(), 2, 3, 1), good.view()); },
                 {"[lmo]", "stride 1"});
  expect_invalid([&] { lmo(Norm(Sign{}), MatrixView<float>(d.data.data(), -2, 3), good.view()); },
                 {"[lmo]", "-2 rows"});
  const Shape shape{.rows = 3, .cols = 2};
  expect_invalid([&] { lmo(Norm(Sign{}), d.view(), good.view(), &shape); }, {"[lmo]", "3x2"});
  d(1, 1) = std::numeric_limits<float>::quiet_NaN();
  expect_invalid([&] { lmo(Norm(Sign{}), d.view(), good.view()); }, {"[lmo]", "not finite"});
  expect_invalid([&] { lmo(Norm(Custom{}), good.view(), d.view()); }, {"[Custom]", "null"});
  Random random(0);
  for (const double radius : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    expect_invalid(
        [&] { sample_sphere(Norm(Sign{}), shape_of(good.view()), radius, good.view(), random); },
        {"[sample_sphere]", "radius", "positive"});
  }
  const std::vector<Index> negative = {3, -1};
  expect_invalid([&] { flatten(negative); }, {"[flatten]", "-1"});
}

}  // namespace
}  // namespace normball::testing
