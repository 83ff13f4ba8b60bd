#include "cli/demonstration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace normball::cli {
namespace {

using Values = std::vector<double>;

void add(std::vector<DemoRun>& runs, bool clipped, double lr, const Values& last) {
  for (size_t seed = 0; seed < last.size(); ++seed) {
    runs.push_back({.clipped = clipped,
                    .lr = lr,
                    .seed = static_cast<int>(seed),
                    .excess = {1, last[seed]},
                    .last_step = clipped ? 0.5 : 1,
                    .accuracy = 0.8});
  }
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Demonstration, AStepsizeGivenTwiceCountsOnce) {
  EXPECT_EQ(different_stepsizes(Values{0.01, 0.010, 1e-2, 0.3, 0.01}), (Values{0.01, 0.3}));
  EXPECT_EQ(different_stepsizes(Values{0.1, 0.1000000001}), (Values{0.1, 0.1000000001}));
  EXPECT_TRUE(different_stepsizes(Values{}).empty());
}

TEST(Demonstration, NearStepsizesAreToldApart) {
  std::vector<DemoRun> runs;
  for (const double lr : {0.1, 0.1000000001}) {
    add(runs, false, lr, {1e-2});
    add(runs, true, lr, {1e-3});
  }
  std::ostringstream table;
  demo_table(runs).print(table);
  EXPECT_TRUE(says(table.str(), "0.1000000001")) << table.str();
  EXPECT_TRUE(says(demo_conclusion(runs), "at lr 0.1000000001")) << demo_conclusion(runs);
}

TEST(Demonstration, SmallestLossIsTheMinimumOfTheSmoothedCrossEntropy) {
  // Cross-entropy with the label's probability p and the rest shared evenly, minimized over a grid.
  const double smoothing = 0.1;
  const int classes = 10;
  double smallest = 1e9;
  for (double p = 0.5; p < 1; p += 1e-5) {
    const double label = 1 - smoothing + smoothing / classes, other = smoothing / classes;
    smallest = std::min(
        smallest, -label * std::log(p) - (classes - 1) * other * std::log((1 - p) / (classes - 1)));
  }
  EXPECT_NEAR(smallest_loss(smoothing, classes), smallest, 1e-8);
  EXPECT_EQ(smallest_loss(0, classes), 0);
}

TEST(Demonstration, ConclusionNamesWhoEndedCloser) {
  std::vector<DemoRun> runs;
  add(runs, false, 0.1, {0.2, 0.4});
  add(runs, true, 0.1, {0.01, 0.02});
  const std::string text = demo_conclusion(runs);
  EXPECT_TRUE(says(text,
                   "ClippedScion ended closer to the smallest loss at 1 of 1 stepsizes, in "
                   "every seed: 20 times at lr 0.1."))
      << text;
  EXPECT_TRUE(says(text, "ClippedScion is 20 times closer.")) << text;
}

TEST(Demonstration, ConclusionTurnsRoundWithTheResult) {
  std::vector<DemoRun> runs;
  add(runs, false, 0.1, {0.01, 0.02});
  add(runs, true, 0.1, {0.2, 0.4});
  const std::string text = demo_conclusion(runs);
  EXPECT_FALSE(says(text, "ClippedScion ended closer")) << text;
  EXPECT_TRUE(says(text, "Scion ended closer to the smallest loss at 1 of 1")) << text;
  EXPECT_TRUE(says(text, "Scion is 20 times closer.")) << text;
}

TEST(Demonstration, OverlappingSeedsDecideNothing) {
  std::vector<DemoRun> runs;
  add(runs, false, 0.1, {0.1, 0.3});
  add(runs, true, 0.1, {0.05, 0.2});
  const std::string text = demo_conclusion(runs);
  EXPECT_FALSE(says(text, "ended closer")) << text;
  EXPECT_TRUE(says(text, "The seeds overlap at lr 0.1.")) << text;
  EXPECT_TRUE(says(text, "does not tell them apart")) << text;
}

TEST(Demonstration, EachStepsizeIsJudgedByItself) {
  std::vector<DemoRun> runs;
  add(runs, false, 0.01, {0.001});
  add(runs, true, 0.01, {0.01});
  add(runs, false, 0.1, {0.5});
  add(runs, true, 0.1, {0.005});
  const std::string text = demo_conclusion(runs);
  EXPECT_TRUE(says(text,
                   "ClippedScion ended closer to the smallest loss at 1 of 2 stepsizes (one "
                   "seed): 100 times at lr 0.1."))
      << text;
  EXPECT_TRUE(says(text,
                   "Scion ended closer to the smallest loss at 1 of 2 stepsizes (one seed): 10 "
                   "times at lr 0.01."))
      << text;
  EXPECT_TRUE(
      says(text, "Scion 1.0e-03 (lr 0.01), ClippedScion 5.0e-03 (lr 0.1): Scion is 5.0 times"))
      << text;
}

TEST(Demonstration, DivergedRunsAreNamed) {
  std::vector<DemoRun> runs;
  add(runs, false, 0.1, {NAN, INFINITY});
  add(runs, true, 0.1, {0.01, 0.02});
  EXPECT_TRUE(says(demo_conclusion(runs), "the other diverged at lr 0.1")) << demo_conclusion(runs);
  std::ostringstream table;
  demo_table(runs).print(table);
  EXPECT_TRUE(says(table.str(), "diverged")) << table.str();
}

TEST(Demonstration, OneMethodAloneIsNoComparison) {
  std::vector<DemoRun> runs;
  add(runs, true, 0.1, {0.01});
  EXPECT_TRUE(says(demo_conclusion(runs), "nothing to compare"));
}

TEST(Demonstration, TheLastTenthOfTheStepsCounts) {
  std::vector<DemoRun> runs(2);
  runs[0].lr = runs[1].lr = 0.1;
  runs[0].excess.assign(20, 1.0);
  runs[0].excess[18] = 0.01;  // to and fro between 1 and 0.01: 0.1
  runs[1].clipped = true;
  runs[1].excess.assign(20, 1e-3);
  runs[1].excess[0] = 100;
  EXPECT_TRUE(says(demo_conclusion(runs), "100 times at lr 0.1")) << demo_conclusion(runs);
}

TEST(Demonstration, FigureHasTheGeometricMeanOfTheSeeds) {
  std::vector<DemoRun> runs;
  add(runs, false, 0.1, {0.1, 0.4});
  add(runs, true, 0.1, {0.01, 0.01});
  const auto figure = demo_figure(runs);
  ASSERT_EQ(figure.curves.size(), 2U);
  EXPECT_NEAR(figure.curves[0].values.back(), 0.2, 1e-12);
  EXPECT_NEAR(figure.curves[1].values.back(), 0.01, 1e-12);
}

}  // namespace
}  // namespace normball::cli
