// Where the numbers of a run go: metrics.jsonl, TensorBoard and the screen.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/optim/training_optimizer.h"
#include "trainer/run/metrics.h"
#include "trainer/run/tensorboard.h"
#include "trainer/runtime/progress.h"
#include "trainer/train/evaluation.h"

namespace normball::trainer::train {

class Recorder {
 public:
  // Starts the run's files, or goes on after a step of an earlier process that took so many
  // seconds. An empty directory: no files, in a rank that does not lead.
  Recorder(const std::filesystem::path& directory, const config::Config& config, std::string unit,
           std::int64_t steps, runtime::Progress& progress,
           std::optional<std::int64_t> resume_step = {}, double earlier_seconds = 0, int ranks = 1);

  // After step number `step`, counted from 1, on so many images or tokens.
  void trained(std::int64_t step, double loss, const optim::StepOutcome& outcome,
               std::int64_t units);
  // Seconds that the run has waited until now, for data and for the gradients of other ranks;
  // trained() logs their shares.
  void waited(double for_data, double for_ranks) {
    waited_ = for_data;
    waited_for_ranks_ = for_ranks;
  }
  // The last line of a run that does not go on: its step was not finite.
  void stopped(std::int64_t step, double loss, const optim::StepOutcome& outcome);
  // The last line of a run that took all its steps in vain, with what was measured.
  void diverged(std::int64_t step, const std::string& text);
  // Where the evaluated weights are an average, with the last iterate's beside them.
  void evaluated(std::int64_t step, const Evaluation& evaluation,
                 const std::optional<Evaluation>& of_iterate = {});
  // What was measured after the step, if anything was.
  void measured(std::int64_t step, const std::vector<std::pair<std::string, double>>& values);
  void sampled(std::int64_t step, const std::string& text);
  void note(const std::string& text) { progress_.print(text); }

  // Before a checkpoint.
  void sync();
  // Throws where a file of the run was removed from its directory, or replaced.
  void require_files(const std::filesystem::path& directory,
                     const std::filesystem::path& checkpoint) const;
  std::int64_t lines() const { return metrics_ ? metrics_->lines() : 0; }  // of metrics.jsonl
  double seconds() const;  // of all processes of the run, one after another

 private:
  using Clock = std::chrono::steady_clock;

  static run::MetricsLine line_of(std::int64_t step, double loss,
                                  const optim::StepOutcome& outcome);
  void write(run::MetricsLine line);
  double rate();
  void restart_rate();

  std::string unit_;
  std::int64_t steps_, log_every_, first_step_;
  int ranks_;
  runtime::Progress& progress_;
  std::optional<run::MetricsWriter> metrics_;
  std::optional<run::EventWriter> events_;
  double earlier_seconds_;
  Clock::time_point start_ = Clock::now(), last_log_ = start_;
  std::int64_t units_since_log_ = 0, units_ = 0;
  double clipped_share_ = 0;
  double waited_ = 0, waited_at_log_ = 0, waited_for_ranks_ = 0, for_ranks_at_log_ = 0;
  runtime::Snapshot snapshot_;
};

}  // namespace normball::trainer::train
