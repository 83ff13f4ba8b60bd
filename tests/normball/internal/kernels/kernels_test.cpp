#include "normball/internal/kernels/kernels.h"

#include <array>
#include <limits>
#include <numbers>

#include "testing.h"

namespace normball::testing {
namespace {

template <class T>
struct Variant {
  const char* name;
  const Kernels<T>* table;
};

// The variants this processor can run, each tested, not only the one chosen.
template <class T>
std::vector<Variant<T>> variants() {
  const auto pick = [](const Kernels<float>& f, const Kernels<double>& d) {
    if constexpr (std::is_same_v<T, float>) {
      (void)d;
      return &f;
    } else {
      (void)f;
      return &d;
    }
  };
  std::vector<Variant<T>> all = {
      {"generic", pick(detail::kernels_generic_float(), detail::kernels_generic_double())}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    all.push_back({"avx2", pick(detail::kernels_avx2_float(), detail::kernels_avx2_double())});
  }
  if (std::string(kernel_variant()) == "avx512") {
    all.push_back(
        {"avx512", pick(detail::kernels_avx512_float(), detail::kernels_avx512_double())});
  }
#endif
  return all;
}

template <class T>
class KernelVariants : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(KernelVariants, Types);

// tests/CMakeLists.txt runs this once for each name.
TEST(KernelVariant, IsTheOneThatTheEnvironmentNames) {
  const char* wanted = std::getenv("NORMBALL_KERNELS");
  const std::string_view known[] = {"avx512", "avx2", "generic"};
  if (wanted != nullptr && std::ranges::find(known, wanted) == std::end(known)) {
    expect_invalid([] { kernel_variant(); }, {"NORMBALL_KERNELS", wanted, "generic"});
  } else {
    EXPECT_EQ(kernel_variant(), std::string(wanted == nullptr ? kernel_variant() : wanted));
  }
}

TYPED_TEST(KernelVariants, AgreeWithPlainLoopsAtEveryLength) {
  using T = TypeParam;
  const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
  for (const auto& [name, k] : variants<T>()) {
    for (Index n = 0; n < 140; ++n) {
      SCOPED_TRACE(::testing::Message() << name << " n " << n);
      Random random(static_cast<std::uint64_t>(n));
      const auto x = gaussian<T>(1, n + 1, random), y = gaussian<T>(1, n + 1, random);
      const T *a = x.data.data() + 1, *b = y.data.data() + 1;  // not aligned
      double abs = 0, squares = 0, max = 0, product = 0;
      for (Index i = 0; i < n; ++i) {
        const double u = a[i], v = b[i];
        abs += std::abs(u);
        squares += u * u;
        max = std::max(max, std::abs(u));
        product += u * v;
      }
      EXPECT_NEAR(k->sum_abs(a, n), abs, 1e-13 * abs);
      EXPECT_NEAR(k->sum_squares(a, 3, n), 9 * squares, 1e-13 * 9 * squares);
      EXPECT_EQ(k->max_abs(a, n), max);
      EXPECT_NEAR(k->dot(a, b, n), product, 1e-13 * static_cast<double>(n + 1));
      EXPECT_TRUE(k->all_finite(a, n));

      const auto check = [&](const std::vector<T>& got, const auto& expected) {
        for (Index i = 0; i < n; ++i) {
          const double e = expected(static_cast<double>(a[i]), static_cast<double>(b[i]));
          EXPECT_NEAR(static_cast<double>(got[static_cast<size_t>(i)]), e,
                      2 * eps * (1 + std::abs(e)));
        }
      };
      const std::vector<T> start(a, a + n);
      auto out = start;
      k->scale(out.data(), -2.5, n);
      check(out, [](double u, double) { return -2.5 * u; });
      out = start;
      k->blend(out.data(), out.data(), b, 0.3, n);
      check(out, [](double u, double v) { return 0.3 * v + 0.7 * u; });
      std::vector<T> apart(start.size());
      k->blend(apart.data(), start.data(), b, 0.3, n);
      EXPECT_EQ(apart, out);  // bit for bit: the optimizer computes an average twice
      out = start;
      k->blend(out.data(), out.data(), b, 1, n);
      EXPECT_EQ(out, std::vector<T>(b, b + n));
      out = start;
      k->add_scaled(out.data(), 0.5, b, 2, 0.25, n);
      check(out, [](double u, double v) { return 0.5 * u + 0.5 * v; });
      out = start;
      k->add_signs(out.data(), 0.5, b, 2, n);
      check(out, [](double u, double v) { return 0.5 * u + 2 * ((v > 0) - (v < 0)); });
      const std::vector<double> by_column(static_cast<size_t>(n), 0.5), two(by_column.size(), 2);
      out = start;
      k->add_by_column(out.data(), 1, b, by_column.data(), two.data(), n);
      check(out, [](double u, double v) { return u + v; });
      std::vector<double> sums(static_cast<size_t>(n), 1);
      k->add_squares(sums.data(), a, 2, n);
      for (Index i = 0; i < n; ++i) {
        const double u = a[i];
        EXPECT_NEAR(sums[static_cast<size_t>(i)], 1 + 4 * u * u, 1e-14 * (1 + 4 * u * u));
      }
    }
  }
}

TYPED_TEST(KernelVariants, MultiplyByPartsOfASymmetricMatrix) {
  using T = TypeParam;
  const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
  for (const auto& [name, k] : variants<T>()) {
    for (const Index n : {1, 2, 3, 4, 5, 7, 16, 21, 40, 67}) {
      for (const auto& [begin, end] : {std::pair<Index, Index>{0, n}, {0, n / 2}, {n / 3, n}}) {
        SCOPED_TRACE(::testing::Message() << name << " n " << n << " rows " << begin << ":" << end);
        Random random(static_cast<std::uint64_t>(n));
        const auto a = gaussian<T>(n, n, random, 1, 3);  // the lower half must not be read
        const auto x = gaussian<T>(1, n, random), start = gaussian<T>(1, n, random);
        auto y = start;
        k->add_symmetric_rows(y.data.data(), a.data.data(), a.stride, x.data.data(), begin, end, n);
        for (Index i = 0; i < n; ++i) {
          double expected = start(0, i), size = std::abs(expected);
          for (Index j = 0; j < n; ++j) {
            const Index row = std::min(i, j), col = std::max(i, j);
            if (row < begin || row >= end) continue;
            const double term = static_cast<double>(a(row, col)) * static_cast<double>(x(0, j));
            expected += term;
            size += std::abs(term);
          }
          EXPECT_NEAR(static_cast<double>(y(0, i)), expected, 10 * eps * size);
        }
      }
    }
  }
}

TYPED_TEST(KernelVariants, MultiplyAndSubtractFewRows) {
  using T = TypeParam;
  const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
  for (const auto& [name, k] : variants<T>()) {
    for (const Index n : {1, 3, 8, 16, 31, 64, 133}) {
      for (const Index count : {0, 1, 3, 4, 9}) {
        SCOPED_TRACE(::testing::Message() << name << " n " << n << " rows " << count);
        Random random(static_cast<std::uint64_t>(n * 10 + count));
        const auto v = gaussian<T>(count, n, random, 1, 3), w = gaussian<T>(count, n, random, 1, 3);
        const auto a = gaussian<T>(1, count, random), b = gaussian<T>(1, count, random);
        const auto x = gaussian<T>(1, n, random);
        const auto wide = convert<double>(v), wide_a = convert<double>(a);
        auto few = x, products = gaussian<T>(1, count, random),
             from_wide = gaussian<T>(1, n, random);
        k->subtract_rows(few.data.data(), v.data.data(), w.data.data(), v.stride, a.data.data(),
                         b.data.data(), count, n);
        k->subtract_wide_rows(from_wide.data.data(), x.data.data(), wide.data.data(), wide.stride,
                              wide_a.data.data(), count, n);
        k->row_products(products.data.data(), v.data.data(), v.stride, x.data.data(), count, n);
        for (Index j = 0; j < n; ++j) {
          double both = x(0, j), one = x(0, j), size = std::abs(one);
          for (Index i = 0; i < count; ++i) {
            const double av = static_cast<double>(a(0, i)) * v(i, j),
                         bw = static_cast<double>(b(0, i)) * w(i, j);
            one -= av;
            both -= av + bw;
            size += std::abs(av) + std::abs(bw);
          }
          EXPECT_NEAR(static_cast<double>(few(0, j)), both, 10 * eps * size);
          EXPECT_NEAR(static_cast<double>(from_wide(0, j)), one, 2 * eps * size);
        }
        for (Index i = 0; i < count; ++i) {
          double expected = 0, size = 0;
          for (Index j = 0; j < n; ++j) {
            const double term = static_cast<double>(v(i, j)) * x(0, j);
            expected += term;
            size += std::abs(term);
          }
          EXPECT_NEAR(static_cast<double>(products(0, i)), expected, 10 * eps * size);
        }
      }
    }
  }
}

// Rows along the memory and across it, added to what is there or not.
TEST(Kernels, FormGramMatricesOfFloatsInDouble) {
  for (const auto& [name, k] : variants<float>()) {
    if (k->gram == nullptr) continue;
    for (const Index n : {1, 7, 8, 24, 25, 70}) {
      for (const Index depth : {1, 8, 19, 64}) {
        for (const bool across : {false, true}) {
          SCOPED_TRACE(::testing::Message() << name << " " << n << "x" << depth << " " << across);
          Random random(static_cast<std::uint64_t>(n * 100 + depth));
          const auto x = gaussian<float>(across ? depth : n, across ? n : depth, random, 1, 5);
          const auto start = gaussian<double>(n, n, random);
          const Index padded = (n + gram_panel - 1) / gram_panel * gram_panel;
          std::vector<double> work(static_cast<size_t>(padded * depth));
          for (const bool add : {false, true}) {
            auto r = start;
            k->gram(r.data.data(), r.stride, x.data.data(), x.stride, across, n, depth, add,
                    work.data());
            for (Index i = 0; i < n; ++i) {
              for (Index j = i; j < n; ++j) {
                double expected = add ? start(i, j) : 0;
                for (Index l = 0; l < depth; ++l) {
                  expected += static_cast<double>(across ? x(l, i) : x(i, l)) *
                              static_cast<double>(across ? x(l, j) : x(j, l));
                }
                EXPECT_NEAR(r(i, j), expected, 1e-12 * static_cast<double>(depth));
              }
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(KernelVariants, SubtractRankTwoFromTheUpperTriangle) {
  using T = TypeParam;
  const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
  for (const auto& [name, k] : variants<T>()) {
    for (const Index n : {1, 2, 5, 16, 37}) {
      Random random(static_cast<std::uint64_t>(n));
      const auto start = gaussian<T>(n, n, random, 1, 3);
      const auto v = gaussian<T>(1, n, random), w = gaussian<T>(1, n, random);
      auto a = start;
      k->subtract_rank_2(a.data.data(), a.stride, v.data.data(), w.data.data(), n);
      for (Index i = 0; i < n; ++i) {
        for (Index j = 0; j < n; ++j) {
          const double before = start(i, j), vw = static_cast<double>(v(0, i)) * w(0, j),
                       wv = static_cast<double>(w(0, i)) * v(0, j);
          const double size = std::abs(before) + std::abs(vw) + std::abs(wv);
          EXPECT_NEAR(static_cast<double>(a(i, j)), j < i ? before : before - vw - wv,
                      j < i ? 0 : 4 * eps * size)
              << name << " n " << n;
        }
      }
    }
  }
}

TYPED_TEST(KernelVariants, ScaleAndAdd) {
  using T = TypeParam;
  for (const auto& [name, k] : variants<T>()) {
    for (Index n = 0; n < 70; ++n) {
      Random random(static_cast<std::uint64_t>(n));
      const auto g = gaussian<T>(1, n, random), out = gaussian<T>(1, n, random);
      auto scaled = g, sum = out;
      k->scale_and_add(scaled.data.data(), T(0.5), sum.data.data(), n);
      for (Index i = 0; i < n; ++i) {  // halving is exact, so fused or not
        EXPECT_EQ(scaled(0, i), g(0, i) * T(0.5)) << name;
        EXPECT_EQ(sum(0, i), out(0, i) + g(0, i) * T(0.5)) << name;
      }
    }
  }
}

// The matrix with 2 on the diagonal and -1 beside it has the eigenvalues 2 - 2 cos(k π / (n + 1)).
TYPED_TEST(KernelVariants, CountEigenvaluesBelowShifts) {
  using T = TypeParam;
  for (const auto& [name, k] : variants<T>()) {
    for (const Index n : {1, 2, 5, 33, 100}) {
      const std::vector<T> d(static_cast<size_t>(n), T(2)), e(static_cast<size_t>(n), T(-1));
      std::array<double, sturm_shifts> shifts;
      std::array<Index, sturm_shifts> counts;
      constexpr double scale = 3;
      for (size_t s = 0; s < shifts.size(); ++s) {
        shifts[s] = (-0.1 + 4.2 * static_cast<double>(s) / (sturm_shifts - 1)) / scale;
      }
      k->sturm_counts(d.data(), e.data(), scale, shifts.data(), counts.data(), n);
      for (size_t s = 0; s < shifts.size(); ++s) {
        Index expected = 0;
        for (Index i = 1; i <= n; ++i) {
          const double angle =
              static_cast<double>(i) * std::numbers::pi / static_cast<double>(n + 1);
          expected += 2 - 2 * std::cos(angle) < scale * shifts[s] ? 1 : 0;
        }
        EXPECT_EQ(counts[s], expected) << name << " n " << n << " shift " << scale * shifts[s];
      }
    }
  }
}

// The eigenvectors of the second difference are sines.
TYPED_TEST(KernelVariants, TwistedVectorsSolveTheShiftedSystem) {
  for (const auto& [name, k] : variants<TypeParam>()) {
    for (const Index n : {1, 2, 5, 40}) {
      const std::vector<double> d(static_cast<size_t>(n), 2.0), e(static_cast<size_t>(n), -1.0);
      std::array<double, twisted_lanes> values, pivots, squares;
      const auto value = [&](size_t lane) {
        const double i = 1 + static_cast<double>(static_cast<Index>(lane) % n);
        return 2 - 2 * std::cos(i * std::numbers::pi / static_cast<double>(n + 1));
      };
      for (size_t l = 0; l < values.size(); ++l) values[l] = value(l) + 1e-7;
      std::vector<double> work(static_cast<size_t>(4 * n * twisted_lanes)),
          z(static_cast<size_t>(n * twisted_lanes));
      k->twisted_vectors(d.data(), e.data(), values.data(), work.data(), z.data(), pivots.data(),
                         squares.data(), n);
      for (size_t l = 0; l < values.size(); ++l) {
        const auto at = [&](Index i) {
          return i < 0 || i >= n ? 0 : z[static_cast<size_t>(i * twisted_lanes) + l];
        };
        double square = 0, residual = 0, along = 0;
        for (Index i = 0; i < n; ++i) {
          const double r = (2 - values[l]) * at(i) - at(i - 1) - at(i + 1);
          square += at(i) * at(i);
          residual += r * r;
          along += r * at(i);
        }
        EXPECT_NEAR(squares[l], square, 1e-12 * square) << name << " n " << n << " lane " << l;
        EXPECT_NEAR(std::sqrt(residual), std::abs(pivots[l]), 1e-13 * square);
        // The Rayleigh quotient is the eigenvalue.
        EXPECT_NEAR(values[l] + along / square, value(l), 1e-12) << name << " n " << n;
      }
    }
  }
}

TYPED_TEST(KernelVariants, ConvertToDoubleAndBack) {
  using T = TypeParam;
  for (const auto& [name, k] : variants<T>()) {
    for (const Index n : {0, 1, 7, 70}) {
      std::vector<T> x(static_cast<size_t>(n)), back(x.size());
      std::vector<double> wide(x.size());
      for (size_t i = 0; i < x.size(); ++i) x[i] = T(1) / static_cast<T>(3 + i);
      k->to_double(wide.data(), x.data(), n);
      k->from_double(back.data(), wide.data(), n);
      for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(wide[i], static_cast<double>(x[i])) << name;
      EXPECT_EQ(back, x) << name;
    }
  }
}

TYPED_TEST(KernelVariants, FindEveryNonFiniteEntry) {
  using T = TypeParam;
  for (const auto& [name, k] : variants<T>()) {
    for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      for (Index at = 0; at < 70; ++at) {
        std::vector<T> x(70, std::numeric_limits<T>::max());
        EXPECT_TRUE(k->all_finite(x.data(), 70));
        x[static_cast<size_t>(at)] = static_cast<T>(bad);
        EXPECT_FALSE(k->all_finite(x.data(), 70)) << name << " at " << at;
      }
    }
  }
}

TYPED_TEST(KernelVariants, DoNotReadTheOutputTheyOverwrite) {
  using T = TypeParam;
  for (const auto& [name, k] : variants<T>()) {
    std::vector<T> out(40, std::numeric_limits<T>::quiet_NaN()), u(40, T(3));
    const std::vector<double> ones(40, 1);
    k->add_scaled(out.data(), 0, u.data(), 2, 1, 40);
    EXPECT_EQ(out, std::vector<T>(40, T(6))) << name;
    out.assign(40, std::numeric_limits<T>::quiet_NaN());
    k->add_signs(out.data(), 0, u.data(), 2, 40);
    EXPECT_EQ(out, std::vector<T>(40, T(2))) << name;
    out.assign(40, std::numeric_limits<T>::quiet_NaN());
    k->add_by_column(out.data(), 0, u.data(), ones.data(), ones.data(), 40);
    EXPECT_EQ(out, u) << name;
  }
}

TEST(L2Norm, NeitherOverflowsNorUnderflows) {
  for (const double scale : {1.0, 1e300, 1e-300, 5e-324, 1e-160, 1e160}) {
    const std::vector<double> x = {3 * scale, -4 * scale};
    EXPECT_NEAR(l2_norm(x.data(), 2) / scale, 5, 1e-14) << scale;
  }
  const std::vector<float> huge = {3e38f, 3e38f};
  EXPECT_NEAR(l2_norm(huge.data(), 2), 3e38 * std::sqrt(2.0), 1e32);
}

TEST(Reciprocal, IsInRangeForEveryPositiveLength) {
  for (const double length : {5e-324, 1e-310, 1e-300, 1.0, 3.7, 1e300, 1.7e308}) {
    const auto [a, b] = reciprocal(length);
    EXPECT_TRUE(std::isfinite(a) && std::isfinite(b));
    EXPECT_NEAR(length * a * b, 1, 1e-15) << length;
  }
  EXPECT_EQ(1 * reciprocal(0).a * reciprocal(0).b, 0);
}

TEST(Workspace, ReusesMemoryAndGrowsOnlyOnce) {
  Workspace workspace;
  for (int round = 0; round < 3; ++round) {
    const Workspace::Frame frame(workspace);
    const auto a = workspace.take<double>(100);
    const auto b = workspace.take<float>(7);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % 64, 0u);
    std::fill(a.begin(), a.end(), 1.0);
    std::fill(b.begin(), b.end(), 2.0f);
    {
      const Workspace::Frame inner_frame(workspace);
      const auto c = workspace.take<double>(1000);
      std::fill(c.begin(), c.end(), 3.0);
    }
    EXPECT_EQ(a[99], 1.0);
    EXPECT_EQ(b[6], 2.0f);
  }
  EXPECT_EQ(workspace.high_water(), 832u + 64 + 8000);
}

TEST(Random, IsReproducibleAndHasTheRightMoments) {
  Random a(42), b(42);
  EXPECT_EQ(a.next(), b.next());
  EXPECT_EQ(Random(0).next(), 0xe220a8397b1dcdafu);  // the reference value of SplitMix64
  double mean = 0, square = 0, uniform = 0;
  constexpr int n = 200000;
  for (int i = 0; i < n; ++i) {
    const double x = a.normal();
    mean += x / n;
    square += x * x / n;
    uniform += a.uniform() / n;
  }
  EXPECT_NEAR(mean, 0, 0.01);
  EXPECT_NEAR(square, 1, 0.015);
  EXPECT_NEAR(uniform, 0.5, 0.004);
}

}  // namespace
}  // namespace normball::testing
