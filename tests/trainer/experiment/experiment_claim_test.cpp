#include <gtest/gtest.h>

#include "trainer/experiment/claim.h"

namespace normball::trainer::experiment {
namespace {

const std::vector<double> low = {1.00, 1.10, 0.95, 1.05, 1.02};
const std::vector<double> high = {1.50, 1.62, 1.44, 1.57, 1.49};  // about 0.5 above, seed by seed

std::vector<double> shifted(std::vector<double> values, double by) {
  for (auto& value : values) value += by;
  return values;
}

TEST(Better, GoesByTheIntervalAgainstTheMargin) {
  EXPECT_EQ(judge_better(low, high, false, 0).answer, Answer::Holds);
  EXPECT_EQ(judge_better(high, low, false, 0).answer, Answer::DoesNotHold);
  EXPECT_EQ(judge_better(high, low, true, 0).answer, Answer::Holds);
  EXPECT_EQ(judge_better(low, high, false, 0.4).answer, Answer::Holds);
  EXPECT_EQ(judge_better(low, high, false, 0.6).answer, Answer::DoesNotHold);
  EXPECT_EQ(judge_better(low, high, false, 0.5).answer, Answer::NotDecided);
}

TEST(Better, ThePairsMatterNotTheSpreadOfSeeds) {
  const std::vector<double> spread = {1, 5, 9, 2, 7};
  EXPECT_EQ(judge_better(spread, shifted(spread, 0.1), false, 0.05).answer, Answer::Holds);
}

TEST(Alike, IsNotTheAbsenceOfADifference) {
  // 5 seeds that are far apart: no significant difference, and no equivalence either.
  const std::vector<double> a = {1, 2, 3, 4, 5}, b = {2, 1, 4, 3, 5.5};
  EXPECT_EQ(judge_alike(a, b, 0.1).answer, Answer::NotDecided);
  EXPECT_EQ(judge_alike(a, a, 0.1).answer, Answer::Holds);
  EXPECT_EQ(judge_alike(low, high, 1).answer, Answer::Holds);  // a difference, within the margin
  EXPECT_EQ(judge_alike(low, high, 0.1).answer, Answer::DoesNotHold);
  EXPECT_EQ(judge_alike(high, low, 0.1).answer, Answer::DoesNotHold);
}

// Falls by 1 / rate for each step of 10, down to 0 at 100 * rate.
Curve line(double rate, double noise = 0) {
  Curve curve;
  for (int i = 1; i <= 100; ++i) {
    curve.emplace_back(10 * i, 100 - i / rate + (i % 2 == 0 ? noise : -noise));
  }
  return curve;
}

TEST(Faster, IsTheRatioOfStepsToTheLossOfTheOther) {
  const std::vector<Curve> slow = {line(1), line(1.01), line(0.99), line(1.02), line(0.98)};
  const std::vector<Curve> fast = {line(0.8), line(0.8), line(0.8), line(0.8), line(0.8)};
  const auto finding = judge_faster(fast, slow, 0.10);
  EXPECT_EQ(finding.answer, Answer::Holds);
  EXPECT_NEAR(finding.effect->value, 0.8, 0.03);
  EXPECT_EQ(judge_faster(fast, slow, 0.30).answer, Answer::DoesNotHold);
  EXPECT_EQ(judge_faster(fast, slow, 0.20).answer, Answer::NotDecided);
  EXPECT_EQ(judge_faster(slow, slow, 0.10).answer, Answer::DoesNotHold);
}

TEST(Faster, NoiseOfSingleEvaluationsDoesNotHideIt) {
  const std::vector<Curve> slow = {line(1, 3), line(1.01, 3), line(0.99, 3)};
  const std::vector<Curve> fast = {line(0.8, 3), line(0.8, 3), line(0.8, 3)};
  EXPECT_NEAR(judge_faster(fast, slow, 0.10).effect->value, 0.8, 0.05);
}

TEST(Faster, ARunThatNeverGetsThereDoesNotProveASpeedUp) {
  const std::vector<Curve> slow = {line(1), line(1), line(1)};
  const std::vector<Curve> never = {line(1.5), line(1.6), line(1.4)};
  EXPECT_EQ(judge_faster(never, slow, 0.10).answer, Answer::DoesNotHold);
  const std::vector<Curve> one = {line(0.5), line(0.5), line(1.6)};
  EXPECT_NE(judge_faster(one, slow, 0.0).answer, Answer::Holds);
}

TEST(Change, RisesAndFalls) {
  EXPECT_EQ(judge_change(high, low, true, 0).answer, Answer::Holds);
  EXPECT_EQ(judge_change(high, low, false, 0).answer, Answer::DoesNotHold);
  EXPECT_EQ(judge_change(low, high, false, 0.2).answer, Answer::Holds);
  EXPECT_EQ(judge_change(high, low, true, 1).answer, Answer::DoesNotHold);
  EXPECT_NEAR(judge_change(high, low, true, 0).effect->value, 1.49, 0.01);
  const auto none = judge_change(low, std::vector<double>{1, 1, -1, 1, 1}, true, 0);
  EXPECT_EQ(none.answer, Answer::NotDecided);
  EXPECT_FALSE(none.effect.has_value());
}

Curve of_steps(const std::vector<double>& values) {
  Curve curve;
  for (size_t i = 0; i < values.size(); ++i) curve.emplace_back(10 * (i + 1), values[i]);
  return curve;
}

TEST(Follows, TheShareThatGoesWithTheOtherCurve) {
  const Curve x = of_steps({1, 2, 3, 4, 10});  // of mean 4
  const auto lines = [&](double c, double k) {
    std::vector<Curve> curves;
    for (const double wobble : {-0.01, 0.0, 0.01}) {
      Curve y = x;
      for (auto& [step, value] : y) value = c + (k + wobble) * value;
      curves.push_back(y);
    }
    return curves;
  };
  const std::vector<Curve> along(3, x);
  const auto share = [&](double c, double k) {
    return judge_follows(lines(c, k), along, 0.5).effect->value;
  };
  EXPECT_NEAR(share(0, 2), 1, 1e-12);   // proportional
  EXPECT_NEAR(share(4, 1), 0.5, 1e-4);  // 1 * 4 of 4 + 4
  EXPECT_NEAR(share(12, 1), 0.25, 1e-4);
  EXPECT_NEAR(share(20, -1), -0.25, 1e-4);
  EXPECT_EQ(judge_follows(lines(1, 1), along, 0.5).answer, Answer::Holds);
  EXPECT_EQ(judge_follows(lines(12, 1), along, 0.5).answer, Answer::DoesNotHold);
  EXPECT_EQ(judge_follows(lines(4, 1), along, 0.5).answer, Answer::NotDecided);
}

TEST(Follows, OnlyStepsThatBothHaveCount) {
  const std::vector<Curve> x(2, Curve{{10, 1}, {15, 100}, {20, 2}, {30, 3}});
  const std::vector<Curve> y(2, Curve{{10, 2}, {20, 4}, {25, -50}, {30, 6}});
  EXPECT_NEAR(judge_follows(y, x, 0).effect->value, 1, 1e-12);
  const std::vector<Curve> two(2, Curve{{10, 2}, {20, 4}}), still(2, of_steps({1, 1, 1}));
  EXPECT_FALSE(judge_follows(two, x, 0).effect.has_value());
  EXPECT_FALSE(judge_follows(y, still, 0).effect.has_value());
}

TEST(Curves, MeanWithinAWindowOfTheSteps) {
  const Curve curve = {{25, 1}, {50, 2}, {75, 3}, {100, 5}};
  EXPECT_EQ(mean_within(curve, {0.5, 1}), 4);  // after 0.5, up to 1
  EXPECT_EQ(mean_within(curve, {0, 0.5}), 1.5);
  EXPECT_EQ(mean_within(curve, {0.8, 0.9}), std::nullopt);
  EXPECT_EQ(mean_within({}, {0, 1}), std::nullopt);
}

TEST(Curves, SmoothedIsTheMeanOfThoseBefore) {
  const Curve curve = {{1, 4}, {2, 2}, {3, 6}, {4, 1}};
  EXPECT_EQ(smoothed(curve, 2), (Curve{{2, 3}, {3, 4}, {4, 3.5}}));
  EXPECT_EQ(smoothed(curve, 1), curve);
  EXPECT_TRUE(smoothed(curve, 5).empty());
}

TEST(All, OneThatDoesNotHoldDecides) {
  const Finding yes{.answer = Answer::Holds}, no{.answer = Answer::DoesNotHold}, open{};
  EXPECT_EQ(all_of(std::vector{yes, yes}), Answer::Holds);
  EXPECT_EQ(all_of(std::vector{yes, open}), Answer::NotDecided);
  EXPECT_EQ(all_of(std::vector{yes, open, no}), Answer::DoesNotHold);
  EXPECT_EQ(all_of({}), Answer::NotDecided);
}

TEST(Kinds, ReadBack) {
  for (const auto kind :
       {Kind::Better, Kind::Alike, Kind::Faster, Kind::Rises, Kind::Falls, Kind::Follows}) {
    EXPECT_EQ(parse_kind(to_text(kind), "here"), kind);
  }
  EXPECT_THROW(parse_kind("bettr", "here"), std::invalid_argument);
}

}  // namespace
}  // namespace normball::trainer::experiment
