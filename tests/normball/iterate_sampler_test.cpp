#include "normball/iterate_sampler.h"

#include "testing.h"

namespace normball::testing {
namespace {

TEST(IterateSampler, IsUniformOverTheIterates) {
  constexpr int n = 8, trials = 40000;
  std::vector<int> counts(n);
  for (int seed = 0; seed < trials; ++seed) {
    IterateSampler<double> sampler(static_cast<std::uint64_t>(seed) * 7919);
    for (int k = 0; k < n; ++k) {
      Matrix<double> x(1, 2, {static_cast<double>(k), -static_cast<double>(k)});
      const std::vector<MatrixView<double>> views = {x.view()};
      sampler.offer(views);
    }
    const auto value = sampler.sample()[0][0];
    EXPECT_EQ(sampler.sample()[0][1], -value);
    EXPECT_EQ(static_cast<double>(sampler.sample_index()), value + 1);
    ++counts[static_cast<size_t>(value)];
  }
  // Chi-squared with 7 degrees of freedom: above 24.3 has probability 0.001.
  double chi = 0;
  for (const int count : counts) chi += std::pow(count - trials / n, 2) / (trials / n);
  EXPECT_LT(chi, 24.3);
}

// The draws of one generator, one after another.
TEST(IterateSampler, DrawsAsAGeneratorDoes) {
  for (const std::uint64_t seed : {0, 9}) {
    Random random(seed);
    IterateSampler<float> sampler(seed);
    for (std::uint64_t k = 1; k <= 200; ++k) {
      Matrix<float> x(1, 1);
      const std::vector<MatrixView<float>> views = {x.view()};
      EXPECT_EQ(sampler.offer(views), random.below(k) == 0);
    }
  }
}

TEST(IterateSampler, IsTheSameForTheSameSeed) {
  IterateSampler<float> a(5), b(5);
  for (int k = 0; k < 100; ++k) {
    Matrix<float> x(2, 2, {static_cast<float>(k), 1, 2, 3});
    const std::vector<MatrixView<float>> views = {x.view()};
    EXPECT_EQ(a.offer(views), b.offer(views));
  }
  EXPECT_EQ(a.sample(), b.sample());
}

}  // namespace
}  // namespace normball::testing
