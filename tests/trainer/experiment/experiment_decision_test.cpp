#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "temporary_directory.h"
#include "trainer/experiment/decision.h"
#include "trainer/experiment/page.h"
#include "trainer/experiment/pictures.h"

namespace normball::trainer::experiment {
namespace {

constexpr const char* text = R"(
title = "b is better than a"
question = "Is it?"
statement = "It is."
measured = "Loss."
base = "demo-unconstrained-scion"
metric = "val_loss"
tuning_seeds = [100]
seeds = [0, 1, 2, 3, 4]
[quick]
set = ["run.steps=10"]
seeds = [0, 1]
[[arm]]
name = "a"
axis = [{ key = "optimizer.lr", values = [0.1, 0.2, 0.4] }]
quick = ["optimizer.lr=0.2"]
[[arm]]
name = "b"
set = ["optimizer.alpha=0.5"]
axis = [{ key = "optimizer.lr", values = [0.1, 0.2, 0.4] }]
[[claim]]
text = "b is better"
kind = "better"
a = "b"
b = "a"
margin = 0.1
)";

class Folder {
 public:
  explicit Folder(const std::string& contents = text) {
    std::filesystem::create_directory(path());
    write(contents);
  }
  std::filesystem::path path() const { return directory_.path() + "/better"; }
  void write(const std::string& contents) const {
    std::ofstream(path() / "experiment.toml") << contents;
  }
  Experiment read() const { return read_experiment(path()); }

 private:
  testing::TemporaryDirectory directory_;
};

std::string replaced(std::string in, const std::string& what, const std::string& by) {
  const auto at = in.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return in.replace(at, what.size(), by);
}

// What a run gives, by its arm, stepsize and seed.
using Loss = std::function<double(const std::string& arm, double lr, std::int64_t seed)>;

Outcome run_of(const Experiment& experiment, const Arm& arm, const sweep::Plan& plan,
               const sweep::Cell& cell, const Loss& loss) {
  Outcome outcome{.arm = arm.name,
                  .result = {.cell = cell.name,
                             .place = {},
                             .seed = cell.seed,
                             .settings = cell.settings,
                             .steps = 100,
                             .seconds = 36}};
  const double lr = plan.axes.empty() ? 0.2 : *plan.axes[0].values[cell.at[0]].number;
  const double value = loss(arm.name, lr, cell.seed);
  outcome.result.curves["val_loss"] = {.last = value, .tail = value, .best = value};
  outcome.curves["val_loss"] = {{50, value + 1}, {100, value}};
  (void)experiment;
  return outcome;
}

// All that the experiment asks for.
Outcomes all_runs(const Experiment& experiment, const Loss& loss) {
  Outcomes outcomes;
  const auto add = [&](const Arm& arm, const sweep::Plan& plan) {
    for (const auto& cell : sweep::cells_of(plan)) {
      outcomes[arm.owner].push_back(run_of(experiment, arm, plan, cell, loss));
    }
  };
  for (const auto& arm : experiment.arms) {
    if (arm.tuning_points() > 1) add(arm, tuning_plan(experiment, arm));
  }
  const auto tuned = decide(experiment, outcomes);
  for (const auto& arm : experiment.arms) {
    const auto& chosen = tuned.arms.at(arm.name).chosen;
    if (chosen) add(arm, deciding_plan(experiment, arm, *chosen));
  }
  return outcomes;
}

double inside(const std::string& arm, double lr, std::int64_t seed) {
  return (lr == 0.2 ? 1.0 : 2.0) + (arm == "a" ? 0.5 : 0) + 0.01 * static_cast<double>(seed % 3);
}

TEST(Decision, TunesThenCompares) {
  const Folder folder;
  const auto experiment = folder.read();
  const auto outcomes = all_runs(experiment, inside);
  const auto decision = decide(experiment, outcomes);
  EXPECT_EQ(decision.answer, Answer::Holds);
  EXPECT_EQ(chosen_text(decision.arms.at("a")), "lr 0.2");
  EXPECT_EQ(decision.runs, 16);  // 3 + 5 for each arm
  EXPECT_NEAR(decision.hours, 0.16, 1e-9);
  EXPECT_EQ(verdict_text(experiment, decision),
            "better: holds here\n"
            "- b is better: holds here; b better than a by 0.5 (95 % interval 0.5 to 0.5, 5 "
            "seeds)\n");
}

TEST(Decision, IsOpenWhileRunsAreMissing) {
  const Folder folder;
  const auto experiment = folder.read();
  EXPECT_EQ(decide(experiment, {}).answer, Answer::NotRun);
  EXPECT_EQ(verdict_text(experiment, decide(experiment, {})),
            "better: not run\n- b is better: not run\n");
  auto outcomes = all_runs(experiment, inside);
  outcomes.at("better").pop_back();
  auto decision = decide(experiment, outcomes);
  EXPECT_EQ(decision.answer, Answer::NotDecided);
  EXPECT_NE(decision.findings[0].reason.find("1 of 5 deciding runs are missing"),
            std::string::npos);
  outcomes.at("better").erase(outcomes.at("better").begin());
  decision = decide(experiment, outcomes);
  EXPECT_NE(decision.findings[0].reason.find("1 of 3 tuning runs are missing"), std::string::npos);
}

TEST(Decision, IsOpenWhereTheBestLiesAtTheEndOfTheGrid) {
  const Folder folder;
  const auto experiment = folder.read();
  const auto outcomes = all_runs(experiment, [](const std::string& arm, double lr, std::int64_t) {
    return arm == "a" ? 2 - lr : 1 + std::abs(lr - 0.2);
  });
  const auto decision = decide(experiment, outcomes);
  EXPECT_EQ(decision.answer, Answer::NotDecided);
  EXPECT_TRUE(decision.findings[0].effect.has_value());
  EXPECT_NE(decision.findings[0].reason.find("is the largest tried"), std::string::npos);
}

TEST(Decision, ARunThatDivergedDecidesNothing) {
  const Folder folder;
  const auto experiment = folder.read();
  auto outcomes = all_runs(experiment, inside);
  outcomes.at("better").back().result.status = sweep::Status::Diverged;
  const auto decision = decide(experiment, outcomes);
  EXPECT_EQ(decision.answer, Answer::NotDecided);
  EXPECT_NE(decision.findings[0].reason.find("1 of 5 deciding runs failed or diverged"),
            std::string::npos);
}

TEST(Decision, RunsWithOtherSettingsDoNotCount) {
  const Folder folder;
  const auto outcomes = all_runs(folder.read(), inside);
  folder.write(replaced(text, "optimizer.alpha=0.5", "optimizer.alpha=0.25"));
  EXPECT_EQ(decide(folder.read(), outcomes).answer, Answer::NotDecided);
}

TEST(Decision, AQuickVersionDecidesNothing) {
  const Folder folder;
  const auto quick = quick_version(folder.read());
  const auto outcomes = all_runs(quick, inside);
  EXPECT_EQ(outcomes.at("better-quick").size(), 4);  // two seeds of two arms, no tuning
  const auto decision = decide(quick, outcomes);
  EXPECT_EQ(decision.answer, Answer::NotDecided);
  EXPECT_NEAR(decision.findings[0].effect->value, 0.5, 1e-12);
  EXPECT_EQ(decision.findings[0].reason, "a quick run decides nothing");
}

TEST(Decision, APageOfAQuickVersionSaysWhatIsOtherwise) {
  const Folder folder;
  const auto experiment = folder.read();
  const auto quick = quick_version(experiment);
  const auto page = page_of(quick, decide(quick, {}), {});
  EXPECT_NE(page.find("The experiment measures: Loss."), std::string::npos);
  EXPECT_NE(page.find("Measured here: the same with other settings, <code>run.steps=10</code>."),
            std::string::npos);
  EXPECT_NE(page.find("it decides nothing"), std::string::npos);
  const auto whole = page_of(experiment, decide(experiment, {}), {});
  EXPECT_NE(whole.find("Measured here: Loss."), std::string::npos);
  EXPECT_EQ(whole.find("quick version"), std::string::npos);
  auto other = experiment;  // as `experiment run --set` makes it
  other.changed = {"data.path=/my/text"};
  const auto changed = page_of(other, decide(other, {}), {});
  EXPECT_NE(changed.find("<code>data.path=/my/text</code>"), std::string::npos);
  EXPECT_EQ(changed.find("Measured here: Loss."), std::string::npos);
}

TEST(Effects, OfAccuraciesAreInPercentagePoints) {
  const Finding finding{
      .answer = Answer::Holds,
      .effect = sweep::Estimate{.value = 0.0125, .low = 0.01, .high = 0.015, .count = 5}};
  const Claim better{.text = "", .kind = Kind::Better, .a = "a", .b = "b"};
  EXPECT_EQ(effect_text(better, {.curve = "val_accuracy"}, finding),
            "a better than b by 1.25 percentage points (95 % interval 1.00 to 1.50, 5 seeds)");
  const Claim falls{.text = "", .kind = Kind::Falls, .a = "a", .b = "", .curve = "dual_norm"};
  EXPECT_EQ(effect_text(falls, {.curve = "val_accuracy"}, finding),
            "dual_norm of a, late over early: 0.0125 (95 % interval 0.01 to 0.015, 5 seeds)");
}

TEST(Decision, AnArmOfAnotherExperimentBringsItsRuns) {
  const Folder folder;
  const auto other = folder.path().parent_path() / "other";
  std::filesystem::create_directory(other);
  std::ofstream(other / "experiment.toml")
      << replaced(text,
                  "name = \"b\"\nset = [\"optimizer.alpha=0.5\"]\n"
                  "axis = [{ key = \"optimizer.lr\", values = [0.1, 0.2, 0.4] }]\n",
                  "name = \"b\"\nof = \"better\"\n");
  const auto experiment = read_experiment(other);
  EXPECT_EQ(experiment.arm("a").owner, "other");
  EXPECT_EQ(experiment.arm("b").owner, "better");
  auto outcomes = all_runs(folder.read(), inside);
  EXPECT_EQ(decide(experiment, outcomes).answer, Answer::NotDecided);
  outcomes["other"] = outcomes["better"];
  EXPECT_EQ(decide(experiment, outcomes).answer, Answer::Holds);
}

TEST(Decision, SettingsOfTheTuningAloneDoNotReachTheRunsThatDecide) {
  const Folder folder(replaced(text, "quick = [", "tuned_with = [\"train.batch=7\"]\nquick = ["));
  const auto experiment = folder.read();
  const auto& arm = experiment.arm("a");
  EXPECT_EQ(sweep::cells_of(tuning_plan(experiment, arm))[0].settings,
            (std::vector<std::string>{"train.batch=7", "optimizer.lr=0.1", "run.seed=100"}));
  EXPECT_EQ(sweep::cells_of(deciding_plan(experiment, arm, {2}))[0].settings,
            (std::vector<std::string>{"optimizer.lr=0.4", "run.seed=0"}));
  EXPECT_EQ(decide(experiment, all_runs(experiment, inside)).answer, Answer::Holds);
}

TEST(Settings, OfAKeyThatBothHaveTheSecondCounts) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(overridden({"a.b=1", "a.bc=2"}, {"a.b=3", "d.e=4"}),
            (Texts{"a.bc=2", "a.b=3", "d.e=4"}));
  EXPECT_EQ(overridden({}, {}), Texts());
}

TEST(Decision, HasAPageAndPictures) {
  const Folder folder;
  const auto experiment = folder.read();
  const auto outcomes = all_runs(experiment, inside);
  const auto decision = decide(experiment, outcomes);
  const auto pictures = pictures_of(experiment, decision);
  ASSERT_EQ(pictures.size(), 3);
  EXPECT_EQ(pictures[0].file, "curves.svg");
  EXPECT_EQ(pictures[1].file, "tuning-a-over-lr.svg");
  const auto page = page_of(experiment, decision, pictures);
  EXPECT_NE(page.find("holds here"), std::string::npos);
  EXPECT_NE(page.find("lr 0.2"), std::string::npos);
  EXPECT_NE(markdown_row(experiment, decision).find("16 runs, 0.16 h"), std::string::npos);
}

TEST(Outcomes, ReadBackTheSame) {
  const Folder folder;
  const auto outcomes = all_runs(folder.read(), inside).at("better");
  const auto file = folder.path() / "results.jsonl";
  EXPECT_TRUE(read_outcomes(file).empty());
  write_outcomes(file, outcomes);
  EXPECT_EQ(read_outcomes(file), outcomes);
  std::ofstream(file) << "{\"arm\": 3}\n{\"arm\": 4}\n";
  EXPECT_THROW(read_outcomes(file), std::invalid_argument);
  write_outcomes(file, outcomes);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 5);
  std::string left_out;
  EXPECT_EQ(read_outcomes(file, &left_out).size(), outcomes.size() - 1);
  EXPECT_NE(left_out.find("is cut off"), std::string::npos);
}

TEST(Outcomes, StretchesAreMeans) {
  const Curve curve = {{1, 1}, {2, 3}, {3, 5}, {4, 7}, {10, 9}};
  EXPECT_EQ(stretch_means(curve, 2), (Curve{{5, 4}, {10, 9}}));
  EXPECT_EQ(stretch_means(curve, 5), (Curve{{2, 2}, {4, 6}, {10, 9}}));
  EXPECT_TRUE(stretch_means({}, 5).empty());
}

TEST(Reading, RefusesWhatIsNotFair) {
  const Folder folder;
  const auto refused = [&](const std::string& what, const std::string& by,
                           const std::string& message) {
    folder.write(replaced(text, what, by));
    try {
      folder.read();
      ADD_FAILURE() << by << " was accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  };
  refused("seeds = [0, 1, 2, 3, 4]", "seeds = [0, 1, 2, 3]", "5 or more");
  refused("tuning_seeds = [100]", "tuning_seeds = [3]", "what tuned must not decide");
  refused("values = [0.1, 0.2, 0.4] }]\nquick", "values = [0.1, 0.2] }]\nquick", "equal budgets");
  refused("kind = \"better\"", "kind = \"bettr\"", "did you mean 'better'");
  refused("a = \"b\"", "a = \"c\"", "unknown arm 'c'");
  refused("margin = 0.1", "margin = -1", "margin must be");
  refused("question = \"Is it?\"\n", "", "question = \"...\" is missing");
  refused("measured", "mesured", "measured");
  refused("[quick]", "halving = { first = 2 }\n[quick]", "runs to its end");
}

}  // namespace
}  // namespace normball::trainer::experiment
