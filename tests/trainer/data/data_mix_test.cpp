// Mixup and CutMix: their distributions, and what they do to a pair of images.
#include <cmath>
#include <numeric>

#include "testing.h"
#include "trainer/data/mix.h"

namespace normball::testing {
namespace {

using namespace trainer::data;

// Mean 1/2 and variance 1 / (4 (2a + 1)); of n draws the mean strays by sqrt(variance / n).
TEST(MixTest, BetaHasItsMomentsAndIsUniformAtOne) {
  constexpr int n = 40000;
  for (const double a : {0.01, 0.2, 0.8, 1.0, 3.0}) {
    SCOPED_TRACE(a);
    Random random(static_cast<std::uint64_t>(1000 * a));
    double sum = 0, squares = 0;
    std::vector<int> tenths(10);
    for (int i = 0; i < n; ++i) {
      const double x = random_beta(a, random);
      ASSERT_GE(x, 0);
      ASSERT_LE(x, 1);
      sum += x;
      squares += (x - 0.5) * (x - 0.5);
      ++tenths[std::min<size_t>(9, static_cast<size_t>(10 * x))];
    }
    const double variance = 1 / (4 * (2 * a + 1));
    EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(variance / n));
    EXPECT_NEAR(squares / n, variance, 0.02 * variance + 0.001);
    if (a == 1) {
      double chi2 = 0;
      for (const int count : tenths) chi2 += (count - n / 10.0) * (count - n / 10.0) / (n / 10.0);
      EXPECT_LT(chi2, 33.7) << "9 degrees of freedom: exceeded once in 10,000";
    }
  }
}

TEST(MixTest, AFairCoinChoosesAndTheWeightIsThatOfTheBox) {
  Random random(5);
  int cut = 0;
  constexpr int n = 4000, size = 32;
  double corners = 0;
  for (int i = 0; i < n; ++i) {
    const Mix mix = random_mix({.mixup = 0.8, .cutmix = 1}, size, size, random);
    if (!mix.cut) continue;
    ++cut;
    const auto& box = mix.box;
    EXPECT_GE(box.left, 0);
    EXPECT_GE(box.top, 0);
    EXPECT_LE(box.left + box.width, size);
    EXPECT_LE(box.top + box.height, size);
    EXPECT_NEAR(mix.weight, 1 - box.width * box.height / double(size * size), 1e-12);
    corners += box.left == 0 ? 1 : 0;
  }
  EXPECT_NEAR(cut, n / 2, 4 * std::sqrt(n / 4.0));
  EXPECT_GT(corners, 0.1 * cut) << "boxes are cut off at the edges";
  EXPECT_FALSE(random_mix({.mixup = 0.8}, size, size, random).cut);
  EXPECT_TRUE(random_mix({.cutmix = 1}, size, size, random).cut);
  EXPECT_EQ(random_mix({}, size, size, random).weight, 1);
}

TEST(MixTest, BothImagesOfAPairAreChanged) {
  constexpr int side = 4;
  std::vector<float> a(3 * side * side), b(a.size());
  std::iota(a.begin(), a.end(), 0.f);
  std::iota(b.begin(), b.end(), 100.f);
  auto x = a, y = b;
  mix_images({.weight = 0.75}, side, side, x.data(), y.data());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(x[i], 0.75f * a[i] + 0.25f * b[i]);
    EXPECT_EQ(y[i], 0.75f * b[i] + 0.25f * a[i]);
  }
  x = a, y = b;
  mix_images({.cut = true, .box = {1, 2, 3, 1}}, side, side, x.data(), y.data());
  for (int i = 0; i < 3 * side * side; ++i) {
    const bool inside = i / side % side == 2 && i % side >= 1;
    const auto k = static_cast<size_t>(i);
    EXPECT_EQ(x[k], inside ? b[k] : a[k]);
    EXPECT_EQ(y[k], inside ? a[k] : b[k]);
  }
}

}  // namespace
}  // namespace normball::testing
