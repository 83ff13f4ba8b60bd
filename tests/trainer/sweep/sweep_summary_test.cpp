#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "temporary_directory.h"
#include "trainer/sweep/summary.h"

namespace normball::trainer::sweep {
namespace {

// lr 0.1, 1, 10 with the values given for each of three seeds.
struct Example {
  Plan plan;
  std::vector<Result> results;

  explicit Example(const std::vector<std::vector<double>>& values) {
    plan.name = plan.base = "example";
    plan.seeds = {0, 1, 2};
    plan.metric = "val_loss";
    plan.axes = {parse_axis("optimizer.lr=0.1,1,10")};
    for (const auto& cell : cells_of(plan)) {
      Result result{.cell = cell.name,
                    .place = {},
                    .seed = cell.seed,
                    .settings = cell.settings,
                    .steps = 100,
                    .seconds = 36};
      const double value = values[cell.at[0]][static_cast<size_t>(cell.seed)];
      result.curves["val_loss"] = {.last = value, .tail = value + 1, .best = value - 1};
      results.push_back(result);
    }
  }

  bool says(const std::string& text) const {
    const auto summary = summarize(plan, results);
    return std::ranges::any_of(summary.remarks, [&](const std::string& remark) {
      return remark.find(text) != std::string::npos;
    });
  }
};

const std::vector<std::vector<double>> inside = {{3, 4, 5}, {1, 2, 3}, {6, 7, 8}};
const std::vector<std::vector<double>> at_border = {{6, 7, 8}, {3, 4, 5}, {1, 2, 3}};
const std::vector<std::vector<double>> overlapping = {{3, 1.9, 3.2}, {1, 2, 3}, {6, 7, 8}};

TEST(Summary, TheBestHasTheLowestMean) {
  const Example example(inside);
  const auto summary = summarize(example.plan, example.results);
  ASSERT_EQ(summary.points.size(), 3);
  EXPECT_EQ(summary.best, 1);
  EXPECT_EQ(summary.points[1].estimate()->value, 2);
  EXPECT_EQ(label_of(example.plan, summary.points[1]), "lr 1");
}

TEST(Summary, SaysWhenTheBestIsOnTheBorder) {
  EXPECT_FALSE(Example(inside).says("may lie beyond"));
  EXPECT_TRUE(Example(at_border).says("the best lr, 10, is the largest tried"));
}

TEST(Summary, SaysItOfTwoNumbersAsWell) {
  const auto remark = [](const char* axis, size_t at) {
    return border_remark(parse_axis(axis), at);
  };
  EXPECT_NE(remark("optimizer.lr=0.5,5", 1).find("5, is the largest tried"), std::string::npos);
  EXPECT_NE(remark("optimizer.lr=0.5,5", 0).find("0.5, is the smallest"), std::string::npos);
  EXPECT_EQ(remark("optimizer.lr=5", 0), "");
  EXPECT_EQ(remark("optimizer.method=scion,adam", 0), "");
  const char* labelled =
      "key = 'optimizer.rho', values = [{label = 'none', set = ['a.b=c']}, 0.5, 5.0]";
  EXPECT_NE(remark(labelled, 2).find("largest"), std::string::npos);
  EXPECT_EQ(remark(labelled, 0), "");
}

TEST(Summary, OfAPartSaysHowMuchIsThereAndNothingOfEnds) {
  Example example(at_border);
  std::erase_if(example.results, [](const Result& result) {
    return result.cell.starts_with("lr-1_");  // the neighbour of the best
  });
  const auto summary = summarize(example.plan, example.results);
  EXPECT_EQ(summary.best, 2);
  EXPECT_FALSE(summary.complete());
  EXPECT_TRUE(example.says("6 of 9 runs are there: the best is the best so far"));
  EXPECT_FALSE(example.says("may lie beyond"));
  example.results.resize(1);
  EXPECT_TRUE(example.says("1 of 9 runs is there"));
}

TEST(Summary, OfEarlyStoppingSaysWhatItSpentAndWhatItDoesNotKnow) {
  Example example(inside);
  for (auto& result : example.results) {
    if (!result.cell.starts_with("lr-0.1_")) continue;
    result.status = Status::Stopped;
    result.reason = "stopped at step 20 of 100: 2nd of 3 by val_loss (2.0), the best 2 go on";
    result.steps = 20;
    result.curves["val_loss"] = {.last = 0, .tail = 0, .best = 0};  // counts for nothing
  }
  const auto summary = summarize(example.plan, example.results);
  EXPECT_EQ(summary.best, 1);
  EXPECT_TRUE(summary.complete());
  EXPECT_EQ(summary.points[0].stopped, 3);
  EXPECT_FALSE(summary.points[0].estimate());
  EXPECT_EQ(summary.points[0].stop, example.results[0].reason);
  EXPECT_TRUE(example.says(
      "budget: 9 runs of 100 steps, 3 of them stopped early: 660 steps instead of 900"));
  EXPECT_TRUE(example.says("1 point was stopped early by val_loss"));
  EXPECT_FALSE(Example(inside).says("stopped"));
}

TEST(Summary, SaysWhenSeedsDoNotTellPointsApart) {
  EXPECT_FALSE(Example(inside).says("not told apart"));  // each pair differs by 2
  EXPECT_TRUE(Example(overlapping)
                  .says("not told apart from the best by these seeds (95 % interval of the paired "
                        "difference): 1 point (lr 0.1)"));
}

TEST(Summary, SaysTheBudget) {
  EXPECT_TRUE(Example(inside).says("budget: 9 runs of 100 steps, 5.4 minutes"));
}

TEST(Summary, APointWithARunThatDivergedIsNotTheBest) {
  Example example(inside);
  example.results[4].status = Status::Diverged;
  example.results[0].status = Status::Failed;
  example.results.pop_back();
  const auto summary = summarize(example.plan, example.results);
  EXPECT_EQ(summary.best, std::nullopt);
  EXPECT_EQ(summary.points[1].estimate()->count, 2);
  EXPECT_TRUE(example.says("1 cell diverged"));
  EXPECT_TRUE(example.says("1 cell failed"));
  EXPECT_TRUE(example.says("8 of 9 runs are there"));
}

TEST(Summary, ChoosesWhatItIsAskedFor) {
  Example example(inside);
  example.plan.metric = "val_loss tail";
  EXPECT_EQ(summarize(example.plan, example.results).points[1].estimate()->value, 3);
  example.plan.metric = "val_loss tial";
  EXPECT_THROW(summarize(example.plan, example.results), std::invalid_argument);
  example.plan.metric = "val_los";
  EXPECT_THROW(summarize(example.plan, example.results), std::invalid_argument);
}

TEST(Summary, HigherAccuracyIsBetter) {
  Example example(inside);
  for (auto& result : example.results) result.curves["val_accuracy"] = result.curves["val_loss"];
  example.plan.metric = "";
  const auto summary = summarize(example.plan, example.results);
  EXPECT_EQ(summary.metric.curve, "val_accuracy");
  EXPECT_EQ(summary.best, 2);
}

TEST(Results, ReadBackTheSame) {
  const testing::TemporaryDirectory directory;
  Example example(inside);
  example.results[2].status = Status::Failed;
  example.results[2].reason = "ended with exit code 1; \"quoted\"\nand a line";
  example.results[3].place["lr"] = "a,b";
  const std::filesystem::path file = directory.path() + "/results.jsonl";
  EXPECT_TRUE(read_results(file).empty());
  write_results(file, example.results);
  EXPECT_EQ(read_results(file), example.results);
  EXPECT_THROW(parse_result("{\"cell\": 3}", "here"), std::invalid_argument);
}

TEST(Results, LastLineThatIsCutOffIsLeftOut) {
  const testing::TemporaryDirectory directory;
  Example example(inside);
  const std::filesystem::path file = directory.path() + "/results.jsonl";
  write_results(file, example.results);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 20);
  std::string left_out;
  const auto rest = read_results(file, &left_out);
  EXPECT_EQ(rest, std::vector<Result>(example.results.begin(), example.results.end() - 1));
  EXPECT_NE(left_out.find("results.jsonl:9 is cut off"), std::string::npos) << left_out;
  std::ofstream(file, std::ios::app) << "\n" << to_json(example.results[8]) << "\n";
  try {
    read_results(file, &left_out);
    FAIL() << "damage before a good line";
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("remove the line"), std::string::npos) << text;
    EXPECT_EQ(text.find("json.exception"), std::string::npos) << text;
  }
}

// A run of 20 steps that was made one of 25 has the statistics of one that took 25 in one go.
TEST(Results, DoNotDependOnWhereTheRunEndedAtFirst) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path run = directory.path();
  const Plan plan = Example(inside).plan;
  const Cell cell = cells_of(plan)[0];
  const auto evaluated_at = [&](const std::vector<int>& evaluations, const std::vector<int>& logged,
                                const std::string& every) {
    std::ofstream(run / "config.toml") << "[run]\nsteps = 25\n" << every;
    std::ofstream file(run / "metrics.jsonl");
    for (int step = 1; step <= 25; ++step) {
      if (std::ranges::count(logged, step) > 0)
        file << "{\"step\": " << step << ", \"loss\": " << 100 - step * step % 37 << "}\n";
      if (std::ranges::count(evaluations, step) > 0)
        file << "{\"step\": " << step << ", \"val_loss\": " << step * step % 29 << "}\n";
    }
    file.close();
    return result_of(plan, cell, run, "").curves;
  };
  const std::string every = "log_every = 6\neval_every = 8\n";
  const auto afresh = evaluated_at({8, 16, 24, 25}, {6, 12, 18, 24, 25}, every);
  EXPECT_EQ(evaluated_at({8, 16, 20, 24, 25}, {6, 12, 18, 20, 24, 25}, every), afresh);
  EXPECT_EQ(afresh.at("val_loss").tail, (576 % 29 + 625 % 29) / 2.0);
  const std::string never = "log_every = 6\neval_every = 0\n";
  EXPECT_EQ(evaluated_at({20, 25}, {6, 12, 18, 20, 24, 25}, never),
            evaluated_at({25}, {6, 12, 18, 24, 25}, never));
}

TEST(Results, OfARunDirectory) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path run = directory.path();
  Plan plan = Example(inside).plan;
  const Cell cell = cells_of(plan)[2];
  std::ofstream(run / "metrics.jsonl") << R"({"step": 1, "loss": 4.0, "seconds": 1.0}
{"step": 3, "loss": 1.0, "seconds": 2.0}
{"step": 4, "loss": 3.0, "seconds": 2.5}
)";
  const auto result = result_of(plan, cell, run, "");
  EXPECT_EQ(result.status, Status::Finished);
  EXPECT_EQ(result.place.at("lr"), "0.1");
  EXPECT_EQ(result.steps, 4);
  EXPECT_EQ(result.seconds, 2.5);
  EXPECT_EQ(result.curves.at("loss"), (CurveSummary{.last = 3, .tail = 3, .best = 1}));
  EXPECT_EQ(result_of(plan, cell, run, "exit code 1").status, Status::Failed);
  std::ofstream(run / "metrics.jsonl", std::ios::app)
      << R"({"step": 5, "loss": "NaN", "diverged": "it is NaN"}
)";
  const auto diverged = result_of(plan, cell, run, "exit code 1");
  EXPECT_EQ(diverged.status, Status::Diverged);
  EXPECT_NE(diverged.reason.find("it is NaN"), std::string::npos) << diverged.reason;
}

TEST(Results, CsvQuotesWhatNeedsIt) {
  Example example(inside);
  example.results.resize(1);
  example.results[0].place["lr"] = "a,\"b\"";
  EXPECT_EQ(
      to_csv(example.plan, example.results),
      "cell,lr,seed,status,reason,steps_done,seconds,val_loss_last,val_loss_tail,val_loss_best\n"
      "lr-0.1_seed-0,\"a,\"\"b\"\"\",0,finished,,100,36,3,4,2\n");
}

}  // namespace
}  // namespace normball::trainer::sweep
