// The training loop, from a configuration to a trained model in a run directory.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/optim/training_optimizer.h"
#include "trainer/run/checkpoint.h"
#include "trainer/run/resume.h"
#include "trainer/run/run_lock.h"
#include "trainer/runtime/progress.h"
#include "trainer/train/batch_pass.h"
#include "trainer/train/data_source.h"
#include "trainer/train/evaluation.h"
#include "trainer/train/learning_check.h"
#include "trainer/train/measurements.h"
#include "trainer/train/recorder.h"
#include "trainer/train/team.h"

namespace normball::trainer::train {

struct TrainingOptions {
  std::int64_t stop_after = 0;  // steps of this process, then save and stop; 0: all
  std::int64_t stop_at = 0;     // the same after this step of the run
  bool dry_run = false;         // only explain(): the run directory is not locked
  std::shared_ptr<Team> team = std::make_shared<Team>();
};

struct TrainingResult {
  std::int64_t step = 0;
  std::int64_t skipped = 0;   // of these steps, as not finite
  bool finished = false;      // all steps were taken; otherwise the run was stopped and can go on
  bool was_finished = false;  // before: nothing was left to do
  LearningCheck::Verdict verdict = {};  // where finished
  std::optional<Evaluation> evaluation = {};
  double seconds = 0;
  std::filesystem::path checkpoint;
};

class Trainer {
 public:
  // Reads the data, builds the model, finds the checkpoint to go on from. Writes nothing, but keeps
  // other processes out of a directory that is there already. In a team all do the same on the same
  // configuration, data and program, and one writes.
  explicit Trainer(config::Config config, TrainingOptions options = {});

  // A summary for people: data, model, steps, which parameter is treated how.
  std::string explain() const;

  TrainingResult run(runtime::Progress& progress);

  std::int64_t steps() const { return steps_; }
  const std::filesystem::path& directory() const { return directory_; }
  const models::Model& model() const { return *model_; }

 private:
  void collect_facts();
  void join_team();
  void initialize();
  void find_start();
  void load(const run::Checkpoint& checkpoint);
  void open_directory(runtime::Progress& progress);
  void follow_directory();
  void require_files();

  optim::StepOutcome take_step(const BatchLoss& loss);
  void refuse(const BatchLoss& loss, optim::StepOutcome& outcome, const std::string& where);
  void evaluate_now();
  void sample_now();
  void save();
  std::filesystem::path write_checkpoint(const std::vector<optim::NamedTensor>& optimizer);
  bool due(std::int64_t every) const { return every > 0 && step_ % every == 0; }

  config::Config config_;
  TrainingOptions options_;
  std::shared_ptr<Team> team_;
  std::filesystem::path directory_;
  std::unique_ptr<DataSource> data_;
  std::unique_ptr<models::Model> model_;
  std::int64_t steps_ = 0;
  std::unique_ptr<optim::TrainingOptimizer> optimizer_;
  std::optional<Measurements> measurements_;
  run::CheckpointStore checkpoints_;
  std::map<std::string, std::string> facts_;  // of data and place, for checkpoints
  std::vector<std::string> notes_;            // for the user, once there is a screen
  std::string origin_;                        // run.resume of config.toml
  std::filesystem::path earlier_run_;         // where going on with another run

  std::int64_t step_ = 0;
  std::optional<std::int64_t> resumed_at_ = {};
  double earlier_seconds_ = 0;
  std::optional<run::RunLock> lock_;
  std::unique_ptr<Recorder> recorder_;
  LearningCheck learning_;
  BatchPass pass_;
  std::optional<Evaluation> evaluation_;  // of this step
  std::filesystem::path last_checkpoint_;
};

}  // namespace normball::trainer::train
