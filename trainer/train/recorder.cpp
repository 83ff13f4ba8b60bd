#include "trainer/train/recorder.h"

#include <algorithm>
#include <utility>

#include "trainer/run/run_files.h"

namespace normball::trainer::train {
namespace {

constexpr double recent = 0.02;  // weight of a step in the share of clipped ones

double seconds_between(auto from, auto to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Recorder::Recorder(const std::filesystem::path& directory, const config::Config& config,
                   std::string unit, std::int64_t steps, runtime::Progress& progress,
                   std::optional<std::int64_t> resume_step, double earlier_seconds, int ranks)
    : unit_(std::move(unit)),
      steps_(steps),
      log_every_(config.run.log_every),
      first_step_(resume_step.value_or(0)),
      ranks_(ranks),
      progress_(progress),
      earlier_seconds_(earlier_seconds) {
  if (!directory.empty()) {
    metrics_.emplace(directory / "metrics.jsonl", resume_step);
    events_.emplace(directory, resume_step ? std::optional(*resume_step + 1) : std::nullopt);
  }
  snapshot_.steps = steps;
  snapshot_.items = unit_;
}

double Recorder::seconds() const {
  return earlier_seconds_ + seconds_between(start_, Clock::now());
}

// Images or tokens a second since the last line.
double Recorder::rate() {
  const double elapsed = seconds_between(last_log_, Clock::now());
  const double result = static_cast<double>(units_since_log_) / std::max(1e-9, elapsed);
  restart_rate();
  return result;
}

// Also after what is no training: an evaluation, a sample.
void Recorder::restart_rate() {
  last_log_ = Clock::now();
  units_since_log_ = 0;
}

run::MetricsLine Recorder::line_of(std::int64_t step, double loss,
                                   const optim::StepOutcome& outcome) {
  run::MetricsLine line{.step = step, .values = {{"loss", loss}, {"lr", outcome.lr}}};
  const auto add = [&line](const char* name, const auto& value) {
    if (value) line.values.emplace_back(name, *value);
  };
  add("dual_norm", outcome.pairing);
  add("eta", outcome.eta);
  add("clipped", outcome.clipped);
  add("step_length", outcome.length);
  add("rho", outcome.rho);
  add("evaluations", outcome.evaluations);
  add("alpha", outcome.alpha);
  add("gap", outcome.gap);
  add("nonfinite", outcome.nonfinite);
  return line;
}

void Recorder::trained(std::int64_t step, double loss, const optim::StepOutcome& outcome,
                       std::int64_t units) {
  units_since_log_ += units;
  units_ += units;
  const double elapsed = seconds_between(start_, Clock::now());
  snapshot_.step = step;
  snapshot_.loss = loss;
  snapshot_.lr = outcome.lr;
  snapshot_.dual_norm = outcome.pairing;
  snapshot_.eta = outcome.eta;
  if (outcome.clipped) {
    const double weight = std::max(recent, 1 / static_cast<double>(step - first_step_));
    clipped_share_ += weight * ((*outcome.clipped ? 1 : 0) - clipped_share_);
    snapshot_.clipped_share = clipped_share_;
  }
  snapshot_.items_per_second = static_cast<double>(units_) / std::max(1e-9, elapsed);
  snapshot_.seconds_left =
      elapsed / static_cast<double>(step - first_step_) * static_cast<double>(steps_ - step);
  const bool log = step % log_every_ == 0 || step == steps_ || outcome.nonfinite;
  progress_.update(snapshot_, log);
  if (!log) return;

  run::MetricsLine line = line_of(step, loss, outcome);
  if (outcome.nonfinite) line.values.emplace_back("skipped", true);
  const double seconds = std::max(1e-9, seconds_between(last_log_, Clock::now()));
  const auto share = [seconds](double waited, double& at_log) {
    return (waited - std::exchange(at_log, waited)) / seconds;
  };
  line.values.emplace_back("waited_per_second", share(waited_, waited_at_log_));
  if (ranks_ > 1) {
    line.values.emplace_back("exposed_per_second", share(waited_for_ranks_, for_ranks_at_log_));
  }
  line.values.emplace_back(unit_ + "_per_second", rate());
  write(std::move(line));
}

void Recorder::stopped(std::int64_t step, double loss, const optim::StepOutcome& outcome) {
  run::MetricsLine line = line_of(step, loss, outcome);
  line.values.emplace_back("stopped", true);
  write(std::move(line));
}

void Recorder::diverged(std::int64_t step, const std::string& text) {
  write({.step = step, .values = {{"diverged", text}}});
  sync();
}

void Recorder::evaluated(std::int64_t step, const Evaluation& evaluation,
                         const std::optional<Evaluation>& of_iterate) {
  run::MetricsLine line{.step = step, .values = {{"val_loss", evaluation.loss}}};
  snapshot_.validation = evaluation.loss;
  if (evaluation.accuracy) {
    line.values.emplace_back("val_accuracy", *evaluation.accuracy);
    snapshot_.validation = *evaluation.accuracy;
    snapshot_.validation_name = "val accuracy";
  }
  if (evaluation.top5) line.values.emplace_back("val_top5", *evaluation.top5);
  if (of_iterate) {
    line.values.emplace_back("iterate_val_loss", of_iterate->loss);
    if (of_iterate->accuracy) {
      line.values.emplace_back("iterate_val_accuracy", *of_iterate->accuracy);
    }
  }
  progress_.evaluated(snapshot_);
  write(std::move(line));
  restart_rate();
}

void Recorder::measured(std::int64_t step,
                        const std::vector<std::pair<std::string, double>>& values) {
  if (values.empty()) return;
  write({.step = step, .values = {values.begin(), values.end()}});
  restart_rate();
}

void Recorder::sampled(std::int64_t step, const std::string& text) {
  if (events_) events_->text(step, "sample", text);
  progress_.print("--- step " + std::to_string(step) + "\n" + text + "\n---");
  restart_rate();
}

void Recorder::require_files(const std::filesystem::path& directory,
                             const std::filesystem::path& checkpoint) const {
  if (metrics_) run::require_run_files(directory, *metrics_, checkpoint);
}

void Recorder::sync() {
  if (metrics_) metrics_->sync();
}

void Recorder::write(run::MetricsLine line) {
  if (!metrics_) return;
  if (ranks_ > 1) line.values.emplace_back("ranks", std::int64_t{ranks_});
  line.values.emplace_back("seconds", seconds());
  metrics_->write(line);
  std::vector<run::EventWriter::Scalar> scalars;
  for (const auto& [name, value] : line.values) {
    if (const auto number = line.number(name)) scalars.emplace_back(name, *number);
  }
  events_->scalars(line.step, scalars);
}

}  // namespace normball::trainer::train
