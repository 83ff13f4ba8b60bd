#include "normball/tuning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

namespace normball {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Scores are a function of the point and the repeat.
template <class Score>
RunTrials scored(Score score, int* count = nullptr) {
  return [=](TuningStage, std::span<const TuningTrial> trials) {
    std::vector<TuningOutcome> outcomes;
    for (const auto& trial : trials) {
      if (count != nullptr) ++*count;
      outcomes.push_back({.score = score(trial.point, trial.repeat)});
    }
    return outcomes;
  };
}

// With its best at `best`; it diverges at 20 times that.
RunTrials valley(double best, int* count = nullptr) {
  return scored(
      [=](const TuningPoint& point, int) {
        return point.lr > 20 * best ? kNan : 1 + std::pow(std::log(point.lr / best), 2);
      },
      count);
}

bool has_remark(const TuningResult& result, const std::string& text) {
  return std::ranges::any_of(
      result.remarks, [&](const auto& remark) { return remark.find(text) != std::string::npos; });
}

TEST(Tuning, FindsTheBestLrToHalfAnOctaveWhereverItIs) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> octaves(-13, 13);
  for (int i = 0; i < 200; ++i) {
    const double best = 0.03 * std::exp2(octaves(random));
    int count = 0;
    const TuningOptions options{.lr = 0.03};
    const auto result = tune(options, valley(best, &count));
    EXPECT_LT(std::abs(std::log2(result.best.lr / best)), 0.51) << best;  // three digits
    EXPECT_LE(count, most_trials(options));
    EXPECT_FALSE(has_remark(result, "may lie beyond")) << best;
    EXPECT_EQ(count, static_cast<int>(result.tried.size()));
  }
}

TEST(Tuning, SaysThatTheBestLiesAtTheEndAndStops) {
  int count = 0;
  const auto falling = scored([](const TuningPoint& point, int) { return -point.lr; }, &count);
  auto result = tune({.lr = 1}, falling);
  EXPECT_TRUE(has_remark(result, "is the largest tried: the true best may lie beyond"));
  EXPECT_LE(count, most_trials({}));
  result = tune({.lr = 0.1, .highest_lr = 1}, falling);
  EXPECT_EQ(result.best.lr, 1);
  EXPECT_TRUE(has_remark(result, "the best lr, 1, is the largest that is allowed"));
  result = tune({.lr = 5, .highest_lr = 1}, falling);  // the start lies outside
  EXPECT_EQ(result.best.lr, 1);
  const auto rising = scored([](const TuningPoint& point, int) { return point.lr; });
  EXPECT_TRUE(has_remark(tune({.lr = 1}, rising), "is the smallest tried"));
  result = tune({.lr = 1, .lowest_lr = 0.3}, rising);
  EXPECT_EQ(result.best.lr, 0.3);
  EXPECT_TRUE(has_remark(result, "smallest that is allowed"));
}

TEST(Tuning, GoesFarDownWhereAllDivergesAndGivesUpInTheEnd) {
  const auto result = tune({.lr = 1}, valley(1e-7));
  EXPECT_LT(std::abs(std::log2(result.best.lr / 1e-7)), 0.51);
  EXPECT_TRUE(has_remark(result, "points diverged"));
  int count = 0;
  const auto never = scored([](const TuningPoint&, int) { return kNan; }, &count);
  try {
    tune({.lr = 1}, never);
    FAIL() << "a result of nothing";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("every run diverged"), std::string::npos);
  }
  EXPECT_LE(count, most_trials({}));
}

TEST(Tuning, TellsWhatMayBeChance) {
  const auto once = tune({.lr = 1}, valley(1));
  EXPECT_TRUE(has_remark(once, "one run for each point: nothing is known of chance"));
  const auto clear = tune({.lr = 1, .repeats = 3}, valley(1));
  EXPECT_FALSE(has_remark(clear, "noise"));
  EXPECT_FALSE(has_remark(clear, "chance"));
  int count = 0;
  const auto noisy = scored(
      [](const TuningPoint& point, int repeat) {  // the second data like a larger lr
        return std::pow(std::log(point.lr) - (repeat == 1 ? 1 : 0), 2);
      },
      &count);
  const auto unclear = tune({.lr = 1, .repeats = 3}, noisy);
  EXPECT_TRUE(has_remark(unclear, "within noise: lr "));
  EXPECT_TRUE(has_remark(unclear, "was as good or better in 1 of 3 runs"));
  EXPECT_LE(count, most_trials({.repeats = 3}));
}

TEST(Tuning, TakesANeighbourWhereTheBestWasLuck) {
  const auto lucky = scored([](const TuningPoint& point, int repeat) {
    if (point.lr == 1) return repeat == 0 ? 0.0 : 10.0;
    return 1 + std::pow(std::log(point.lr / 2), 2);
  });
  const auto result = tune({.lr = 1, .repeats = 3}, lucky);
  EXPECT_EQ(result.best.lr, 2);
  const auto unstable = scored([](const TuningPoint& point, int repeat) {
    if (point.lr > 1 || (point.lr == 1 && repeat == 2)) return kNan;
    return 1 - point.lr;
  });
  const auto safe = tune({.lr = 1, .repeats = 3}, unstable);
  EXPECT_EQ(safe.best.lr, 0.5);
  EXPECT_TRUE(has_remark(safe, "lr 1 was the best once, and diverged when it was repeated"));
}

TEST(Tuning, SaysThatNothingWasLearned) {
  const auto flat = [](TuningStage, std::span<const TuningTrial> trials) {
    return std::vector<TuningOutcome>(trials.size(), {.score = 2.5, .first = 2.5});
  };
  EXPECT_TRUE(has_remark(tune({}, flat), "nothing was learned"));
}

// Clipped descent of L x^2 / 2 with steps lr / rho min(rho, |gradient|).
struct Parabola {
  double smoothness, start;
  TuningOutcome operator()(const TuningPoint& point) const {
    double x = start;
    TuningOutcome outcome{.score = 0, .first = smoothness * start * start / 2};
    for (int k = 0; k < 30; ++k) {
      const double gradient = smoothness * x, s = std::abs(gradient);
      if (s == 0) break;
      outcome.s.push_back(s);
      x -= point.lr / *point.rho * std::min(*point.rho, s) * (gradient > 0 ? 1 : -1);
    }
    outcome.score = smoothness * x * x / 2;
    return outcome;
  }
};

RunTrials descents(Parabola parabola, std::set<TuningStage>* stages = nullptr) {
  return [=](TuningStage stage, std::span<const TuningTrial> trials) {
    if (stages != nullptr) stages->insert(stage);
    std::vector<TuningOutcome> outcomes;
    for (const auto& trial : trials) outcomes.push_back(parabola(trial.point));
    return outcomes;
  };
}

// Near its minimum a parabola wants steps of s / L: clipping with lr / rho near 1 / L.
TEST(Tuning, FindsTheThresholdOfAParabola) {
  for (const double smoothness : {1e-3, 1.0, 50.0}) {
    for (const double start : {0.1, 7.3, 301.0}) {
      const Parabola parabola{smoothness, start};
      std::set<TuningStage> stages;
      const TuningOptions options{.lr = 1, .tune_rho = true};
      const auto result = tune(options, descents(parabola, &stages));
      ASSERT_TRUE(result.best.rho);
      const double product = result.best.lr / *result.best.rho * smoothness;
      EXPECT_GT(product, 0.5) << smoothness << ' ' << start;
      EXPECT_LT(product, 2) << smoothness << ' ' << start;
      EXPECT_LT(result.score, 1e-5 * parabola({1e-9, 1e9}).score);
      EXPECT_TRUE(stages.contains(TuningStage::Rho));
      EXPECT_LE(static_cast<int>(result.tried.size()), most_trials(options));
      for (const auto& tried : result.tried) {
        EXPECT_FALSE(tried.mean() < result.score) << to_string(tried.point);
      }
    }
  }
}

// The steps of the points that differ in rho are as long at the median of s.
TEST(Tuning, KeepsTheStepAtTheMedianOfS) {
  const std::vector<double> s = {1, 2, 3, 4, 100};
  std::vector<TuningPoint> seen;
  const auto run = [&](TuningStage stage, std::span<const TuningTrial> trials) {
    std::vector<TuningOutcome> outcomes;
    for (const auto& trial : trials) {
      if (stage == TuningStage::Rho) seen.push_back(trial.point);
      const double score = std::abs(std::log(trial.point.lr / *trial.point.rho / 0.2));
      outcomes.push_back({.score = stage == TuningStage::Rho ? 1 + score : score, .s = s});
    }
    return outcomes;
  };
  const auto result = tune({.lr = 1, .rho = 5, .tune_rho = true}, run);
  EXPECT_EQ(seen.size(), 5U);
  for (const auto& point : seen) {
    const double step = point.lr / *point.rho * std::min(*point.rho, 3.0);
    EXPECT_NEAR(step, result.best.lr / *result.best.rho * 3, 0.01 * step) << to_string(point);
  }
  EXPECT_EQ(*result.best.rho, 5);  // which was the best by construction
  const auto no_s = tune({.lr = 1, .rho = 5, .tune_rho = true},
                         scored([](const TuningPoint& point, int) { return point.lr; }));
  EXPECT_TRUE(has_remark(no_s, "rho was not tuned"));
}

TEST(Tuning, RefusesWhatMakesNoSense) {
  const auto run = valley(1);
  EXPECT_THROW(tune({.lr = 0}, run), std::invalid_argument);
  EXPECT_THROW(tune({.lr = kNan}, run), std::invalid_argument);
  EXPECT_THROW(tune({.lr = 1, .rho = -1}, run), std::invalid_argument);
  EXPECT_THROW(tune({.lowest_lr = 1, .highest_lr = 0.5}, run), std::invalid_argument);
  EXPECT_THROW(tune({.repeats = 0}, run), std::invalid_argument);
  const auto short_of_one = [](TuningStage, std::span<const TuningTrial>) {
    return std::vector<TuningOutcome>(1);
  };
  EXPECT_THROW(tune({}, short_of_one), std::invalid_argument);
}

TEST(Tuning, KnowsADivergingRun) {
  EXPECT_FALSE(is_diverging({}));
  std::vector<double> losses = {2, 7, 7, 7, 7, 7, 7, 7, 7, 7, 5};  // nine above 6
  EXPECT_FALSE(is_diverging(losses));
  losses.insert(losses.begin() + 1, 6.1);
  EXPECT_TRUE(is_diverging(losses));
  losses.push_back(1);  // and it stays so
  EXPECT_TRUE(is_diverging(losses));
  EXPECT_TRUE(is_diverging(std::vector<double>{1, kNan}));
  EXPECT_FALSE(is_diverging(std::vector<double>(30, -1)));
}

}  // namespace
}  // namespace normball
