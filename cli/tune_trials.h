// The trials of `normball tune`: short runs of the configuration, each an ordinary run directory.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "normball/tuning.h"
#include "trainer/sweep/plan.h"
#include "trainer/sweep/results.h"
#include "trainer/sweep/summary.h"

namespace normball::cli {

struct TrialSettings {
  std::string base;                   // a configuration file or preset
  std::vector<std::string> settings;  // of every trial
  std::vector<std::int64_t> seeds;    // of each repeat
  trainer::sweep::Metric metric;
  std::filesystem::path into;
  int jobs = 1, threads = 1, most = 1;
};

class Trials {
 public:
  // Takes the results that are there already.
  explicit Trials(TrialSettings settings);

  // As tune() asks for them: runs what is missing, side by side. Throws where one fails.
  std::vector<TuningOutcome> run(TuningStage stage, std::span<const TuningTrial> trials);
  // What `run` checks before it starts anything.
  void check(std::span<const TuningTrial> trials) const;

  // Of the trials that were asked for, in their order.
  const std::vector<trainer::sweep::Result>& used() const { return used_; }
  // Axes without values, for tables.
  trainer::sweep::Plan plan() const;

 private:
  struct Run {
    trainer::sweep::Plan plan;
    trainer::sweep::Cell cell;
  };
  Run run_of(const TuningTrial& trial) const;
  trainer::sweep::Result result_of(const Run& run, const std::string& failure) const;
  TuningOutcome outcome_of(const trainer::sweep::Result& result) const;
  void announce(TuningStage stage, std::span<const TuningTrial> trials, size_t missing) const;
  void run_missing(const std::vector<Run>& missing);

  TrialSettings settings_;
  std::map<std::string, trainer::sweep::Result> results_;  // by cell
  std::vector<trainer::sweep::Result> used_;
  std::chrono::duration<double> spent_{};  // on runs of this process
  size_t ended_ = 0;
};

}  // namespace normball::cli
