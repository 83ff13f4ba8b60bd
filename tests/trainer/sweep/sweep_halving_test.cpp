#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "temporary_directory.h"
#include "trainer/sweep/halving.h"
#include "trainer/sweep/results.h"

namespace normball::trainer::sweep {
namespace {

namespace fs = std::filesystem;
using Means = std::vector<std::optional<double>>;

TEST(Halving, RungsAreBelowTheLengthOfTheRuns) {
  EXPECT_EQ(rungs_of({.first = 50, .factor = 2}, 400), (std::vector<std::int64_t>{50, 100, 200}));
  EXPECT_EQ(rungs_of({.first = 100, .factor = 3}, 301), (std::vector<std::int64_t>{100, 300}));
  EXPECT_EQ(rungs_of({.first = 400, .factor = 2}, 400), (std::vector<std::int64_t>{}));
}

TEST(Halving, OneInFactorGoesOnTheSmallestFirst) {
  const Means means = {5.0, 1.0, 4.0, 2.0, 3.0, 6.0, 7.0};
  const auto ranking = rank(means, 3, false);
  EXPECT_EQ(ranking.go_on, 3);
  for (size_t i = 0; i < means.size(); ++i) EXPECT_EQ(ranking.goes_on(i), *means[i] <= 3) << i;
  const auto higher = rank(means, 3, true);
  for (size_t i = 0; i < means.size(); ++i) EXPECT_EQ(higher.goes_on(i), *means[i] >= 5) << i;
}

TEST(Halving, EqualPointsStayInTheirOrder) {
  const auto ranking = rank(Means{2.0, 1.0, 1.0, 1.0}, 2, false);
  EXPECT_TRUE(ranking.goes_on(1) && ranking.goes_on(2));
  EXPECT_FALSE(ranking.goes_on(3));
}

TEST(Halving, APointWithoutAValueNeverGoesOnButCounts) {
  const auto ranking = rank(Means{std::nullopt, 2.0, std::nullopt, 1.0, std::nullopt}, 2, false);
  EXPECT_EQ(ranking.go_on, 2);  // 3 of 5 would, of which 2 have a value
  EXPECT_FALSE(ranking.goes_on(0));
  EXPECT_EQ(rank(Means{std::nullopt, std::nullopt}, 2, false).go_on, 0);
  EXPECT_EQ(rank(Means{1.0}, 2, false).go_on, 1);
}

TEST(Halving, TheReasonSaysWhere) {
  Means means;
  for (int i = 0; i < 12; ++i) means.emplace_back(3 + 0.25 * i);
  const Metric metric{.curve = "val_loss"};
  const auto ranking = rank(means, 3, false);
  EXPECT_EQ(ranking.reason(8, "step 100 of 400", metric, means[8]),
            "stopped at step 100 of 400: 9th of 12 by val_loss (5), the best 4 go on");
  const Metric tail{.curve = "loss", .of = "tail"};
  EXPECT_NE(rank(means, 12, false)
                .reason(10, "step 1 of 2", tail, means[10])
                .find("11th of 12 by loss (tail) (5.5), the best one goes on"),
            std::string::npos);
  EXPECT_NE(ranking.reason(1, "step 100 of 400", metric, std::nullopt).find("not all of its seeds"),
            std::string::npos);
}

class ValueAt : public ::testing::Test {
 protected:
  ValueAt() {
    std::ofstream file(run() / "metrics.jsonl");
    for (int step = 1; step <= 40; ++step) {
      const std::string loss = step == 30 ? "\"NaN\"" : std::to_string(100 - step);
      file << "{\"step\": " << step << ", \"loss\": " << loss << "}\n";
      if (step % 10 == 0) {
        file << "{\"step\": " << step << ", \"val_loss\": " << 50 + std::abs(step - 20) << "}\n";
      }
    }
  }
  fs::path run() const { return directory_.path(); }
  std::optional<double> at(const Metric& metric, std::int64_t step) const {
    return value_at(run(), metric, step);
  }

 private:
  testing::TemporaryDirectory directory_;
};

TEST_F(ValueAt, IsWhatTheRunHadRecordedThen) {
  EXPECT_EQ(at({.curve = "val_loss"}, 10), 60);
  EXPECT_EQ(at({.curve = "val_loss"}, 40), 70);
  EXPECT_EQ(at({.curve = "val_loss", .of = "best"}, 40), 50);
  EXPECT_EQ(at({.curve = "val_loss", .of = "best"}, 10), 60);
  // The steps 16 to 20 of 20, whatever came later.
  EXPECT_EQ(at({.curve = "loss", .of = "tail"}, 20), 82);
}

TEST_F(ValueAt, IsNoneWhereThereIsNoFiniteOneAtTheStep) {
  EXPECT_EQ(at({.curve = "val_loss"}, 15), std::nullopt);
  EXPECT_EQ(at({.curve = "val_loss"}, 50), std::nullopt);
  EXPECT_EQ(at({.curve = "loss"}, 30), std::nullopt);
  EXPECT_EQ(at({.curve = "val_accuracy"}, 10), std::nullopt);
  EXPECT_EQ(value_at(run() / "nowhere", {.curve = "loss"}, 10), std::nullopt);
}

TEST(Halving, OfTheCommandLine) {
  EXPECT_EQ(parse_halving("100").first, 100);
  EXPECT_EQ(parse_halving("100").factor, 3);
  EXPECT_EQ(parse_halving("50,4").factor, 4);
  for (const char* text :
       {"", "0", "-5", "1.5", "50,", "50,1", "50,2.5", "a", "50, 2, 3", "1e13"}) {
    EXPECT_THROW(parse_halving(text), std::invalid_argument) << text;
  }
}

}  // namespace
}  // namespace normball::trainer::sweep
