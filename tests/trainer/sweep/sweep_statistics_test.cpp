#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "trainer/sweep/statistics.h"

namespace normball::trainer::sweep {
namespace {

TEST(Student, OneAndTwoDegreesHaveClosedForms) {
  for (const double t : {-1e6, -30.0, -2.5, -0.1, 0.0, 0.3, 1.0, 7.0, 1e5}) {
    EXPECT_NEAR(student_cdf(t, 1), 0.5 + std::atan(t) / std::numbers::pi, 1e-15) << t;
    EXPECT_NEAR(student_cdf(t, 2), 0.5 + t / (2 * std::sqrt(2 + t * t)), 1e-15) << t;
  }
  EXPECT_EQ(student_cdf(INFINITY, 5), 1);
  EXPECT_EQ(student_cdf(-INFINITY, 5), 0);
}

TEST(Student, ManyDegreesApproachTheNormalDistribution) {
  for (const double t : {-3.0, -1.0, 0.5, 2.0}) {
    EXPECT_NEAR(student_cdf(t, 2'000'001), 0.5 * std::erfc(-t / std::numbers::sqrt2), 1e-6) << t;
  }
}

TEST(Student, QuantilesInvertTheDistribution) {
  for (const int degrees : {1, 2, 3, 4, 9, 30}) {
    for (const double p : {0.001, 0.025, 0.4, 0.5, 0.975, 0.9995}) {
      EXPECT_NEAR(student_cdf(student_quantile(p, degrees), degrees), p, 1e-14) << degrees;
    }
  }
  EXPECT_THROW(student_quantile(1, 3), std::invalid_argument);
  EXPECT_THROW(student_cdf(0, 0), std::invalid_argument);
}

// What the word means: of many samples, that share of the intervals holds the true mean.
TEST(Interval, HoldsTheMeanAsOftenAsItSays) {
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal(3, 2);
  int held = 0;
  constexpr int samples = 20'000;
  for (int i = 0; i < samples; ++i) {
    std::array<double, 5> values{};
    for (double& value : values) value = normal(engine);
    const auto estimate = mean_of(values, 0.9);
    held += estimate.low <= 3 && 3 <= estimate.high ? 1 : 0;
  }
  EXPECT_NEAR(held / static_cast<double>(samples), 0.9, 0.01);  // 4.7 standard deviations
}

TEST(Interval, OfOneObservationIsTheWholeLine) {
  const auto estimate = mean_of(std::array{2.0});
  EXPECT_EQ(estimate, (Estimate{2.0, -INFINITY, INFINITY, 1}));
}

TEST(Interval, NeedsFiniteObservations) {
  EXPECT_THROW(mean_of({}), std::invalid_argument);
  EXPECT_THROW(mean_of(std::array{1.0, std::nan("")}), std::invalid_argument);
  EXPECT_THROW(mean_of(std::array{1.0, 2.0}, 1.0), std::invalid_argument);
  EXPECT_THROW(paired_difference(std::array{1.0}, std::array{1.0, 2.0}), std::invalid_argument);
  EXPECT_THROW(paired_ratio(std::array{1.0, -1.0}, std::array{1.0, 2.0}), std::invalid_argument);
}

TEST(Pairs, WhatTheSeedDoesToBothCancels) {
  const std::array a{10.1, 20.3, 30.2}, b{10.0, 20.0, 30.0};
  EXPECT_LT(paired_difference(a, b).high, 1);
  EXPECT_GT(mean_of(a).high - mean_of(a).low, 20);
}

TEST(Pairs, EqualOnesHaveNoDifference) {
  const std::array a{1.0, 2.0, 3.0};
  EXPECT_EQ(p_value(a, a), 1);
  EXPECT_EQ(p_value(a, std::array{0.0, 1.0, 2.0}), 0);
}

TEST(Verdict, ComesFromTheInterval) {
  EXPECT_EQ(judge({0.1, -0.2, 0.4, 5}, 0.5), Verdict::Equivalent);
  EXPECT_EQ(judge({0.1, -0.2, 0.4, 5}, 0.3), Verdict::Undecided);
  EXPECT_EQ(judge({0.3, 0.1, 0.5, 5}, 0.3), Verdict::Greater);
  EXPECT_EQ(judge({-0.3, -0.5, -0.1, 5}, 0.3), Verdict::Less);
  // One observation decides nothing, whatever the margin.
  EXPECT_EQ(judge(mean_of(std::array{0.0}), 1e300), Verdict::Undecided);
}

TEST(StepsTo, CountsFromWhereTheCurveStaysBelow) {
  using Curve = std::vector<std::pair<std::int64_t, double>>;
  EXPECT_EQ(steps_to(Curve{{1, 3.0}, {2, 1.0}, {3, 2.0}, {4, 1.0}, {5, 0.5}}, 1.0), 4);
  EXPECT_EQ(steps_to(Curve{{1, 0.0}, {2, NAN}}, 1.0), std::nullopt);
  EXPECT_EQ(steps_to(Curve{}, 1.0), std::nullopt);
}

}  // namespace
}  // namespace normball::trainer::sweep
