// An experiment: a question, the arms that are compared, and the rule that decides, as its folder
// states them before the runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/experiment/claim.h"
#include "trainer/sweep/plan.h"

namespace normball::trainer::experiment {

// One of the things compared: settings, and axes along which it is tuned.
struct Arm {
  std::string name;   // also of its directory
  std::string owner;  // the experiment whose runs these are: mostly this one
  std::vector<std::string> settings;
  std::vector<sweep::Axis> axes;
  std::vector<std::string> tuned_with = {};  // only while tuning: a smaller model, for example
  std::vector<std::string> quick = {};       // stand for the tuning in a quick run

  size_t tuning_points() const;
};

struct Experiment {
  std::string name;  // the folder's
  std::filesystem::path folder;
  std::string title, question, statement, measured;
  std::string base;  // a configuration file or preset
  std::vector<std::string> settings;
  std::string metric;
  std::vector<std::int64_t> tuning_seeds, deciding_seeds;
  std::vector<std::int64_t> quick_seeds;
  std::vector<std::string> quick_settings;
  std::vector<Arm> arms;
  std::vector<Claim> claims;
  bool quick = false;
  std::vector<std::string> changed = {};  // settings by which it differs from what its text says

  const Arm& arm(std::string_view name) const;
};

// Both; of a key that both have, the second's.
std::vector<std::string> overridden(std::vector<std::string> settings,
                                    const std::vector<std::string>& by);

constexpr size_t least_seeds = 5;  // that decide

// Reads FOLDER/experiment.toml:
//   title = "..."                    # one line, for lists
//   question = "..."
//   statement = "..."                # the paper's
//   measured = "..."                 # what is measured here
//   base = "byte-gpt"                # a file beside it or one folder up, or a preset
//   set = ["run.steps=500"]
//   metric = "val_loss tail"
//   tuning_seeds = [100]
//   seeds = [0, 1, 2, 3, 4]          # that decide: five or more, none of them a tuning seed
//   [quick]
//   set = ["run.steps=100"]
//   seeds = [0, 1]
//   [[arm]]
//   name = "scion"
//   set = ["optimizer.method=unconstrained_scion"]
//   axis = [{ key = "optimizer.lr", values = [0.1, 0.2, 0.4] }]
//   tuned_with = ["model.width=32"]  # settings of the tuning runs alone
//   quick = ["optimizer.lr=0.2"]     # instead of tuning
//   [[arm]]
//   name = "clipped"
//   of = "gpt-fixed"                 # an arm of another experiment, with its runs
//   [[claim]]
//   text = "..."
//   kind = "better"                  # alike, faster, rises, falls, follows
//   a = "clipped"
//   b = "scion"
//   margin = 0.01
// Arms that are tuned have as many tuning runs each. An error names the file and line.
Experiment read_experiment(const std::filesystem::path& folder);

// By name: $NORMBALL_EXPERIMENTS, else share/normball/experiments beside the running program's bin,
// else experiments/ of the source tree it was built from.
std::vector<std::filesystem::path> experiment_folders();
std::filesystem::path find_experiment(std::string_view name);

// The runs that tune an arm: every point of its axes with the tuning seeds.
sweep::Plan tuning_plan(const Experiment& experiment, const Arm& arm);
// The runs that decide: the chosen place on the axes, `at`, with the deciding seeds.
sweep::Plan deciding_plan(const Experiment& experiment, const Arm& arm,
                          const std::vector<size_t>& at);
// What --quick runs: no tuning, less of everything, runs of its own. It decides nothing.
Experiment quick_version(const Experiment& experiment);

}  // namespace normball::trainer::experiment
