// What is committed in experiments/: verdicts follow from results, and docs say what they say.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "trainer/config/config.h"
#include "trainer/experiment/decision.h"
#include "trainer/experiment/page.h"

namespace normball::trainer::experiment {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in.good()) << file;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class Recorded : public ::testing::Test {
 protected:
  static std::vector<Experiment> all() {
    std::vector<Experiment> experiments;
    for (const auto& entry : fs::directory_iterator(NORMBALL_SOURCE_DIR "/experiments")) {
      if (fs::exists(entry.path() / "experiment.toml"))
        experiments.push_back(read_experiment(entry.path()));
    }
    EXPECT_FALSE(experiments.empty());
    return experiments;
  }

  static Decision decision_of(const Experiment& experiment, Outcomes& outcomes) {
    for (const auto& arm : experiment.arms) {
      outcomes[arm.owner] =
          read_outcomes(experiment.folder.parent_path() / arm.owner / "results.jsonl");
    }
    return decide(experiment, outcomes);
  }
};

TEST_F(Recorded, VerdictsFollowFromResults) {
  for (const auto& experiment : all()) {
    SCOPED_TRACE(experiment.name);
    Outcomes outcomes;
    const auto decision = decision_of(experiment, outcomes);
    EXPECT_EQ(contents(experiment.folder / "verdict.txt"), verdict_text(experiment, decision));
  }
}

TEST_F(Recorded, TheDocumentedTableIsTheirs) {
  const auto page = contents(NORMBALL_SOURCE_DIR "/docs/experiments.md");
  for (const auto& experiment : all()) {
    SCOPED_TRACE(experiment.name);
    Outcomes outcomes;
    const auto row = markdown_row(experiment, decision_of(experiment, outcomes));
    EXPECT_NE(page.find(row), std::string::npos) << "not in docs/experiments.md: " << row;
  }
}

TEST_F(Recorded, EveryConfigurationIsOne) {
  for (const auto& experiment : all()) {
    for (const auto& version : {experiment, quick_version(experiment)}) {
      for (const auto& arm : version.arms) {
        auto plan = tuning_plan(version, arm);
        if (plan.seeds.empty()) plan.seeds = {0};
        for (const auto& cell : sweep::cells_of(plan)) {
          EXPECT_NO_THROW(config::load_config(plan.base, cell.settings))
              << version.name << cell.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace normball::trainer::experiment
