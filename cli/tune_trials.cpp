#include "cli/tune_trials.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "cli/side_by_side.h"
#include "cli/sweep_runs.h"
#include "cli/table.h"
#include "normball/base/error.h"
#include "normball/base/text.h"
#include "trainer/report/report.h"
#include "trainer/runtime/progress.h"

namespace normball::cli {
namespace {

namespace fs = std::filesystem;
namespace report = trainer::report;
namespace sweep = trainer::sweep;

// The finite values of a curve; empty where there is none yet. What is not finite ends a run, or
// was to be skipped.
std::vector<double> curve_of(const fs::path& run, const std::string& name) {
  if (!fs::exists(run / "metrics.jsonl")) return {};
  const auto curves = report::read_run(run, report::EarlierEnds::LeaveOut).curves;
  std::vector<double> values;
  const auto found = curves.find(name);
  if (found == curves.end()) return {};
  for (const auto& point : found->second) {
    if (std::isfinite(point.value)) values.push_back(point.value);
  }
  return values;
}

sweep::Axis axis_of(const std::string& name, double value) {
  const std::string text = number_text(value);
  return {
      .name = name,
      .values = {{.label = text, .settings = {"optimizer." + name + "=" + text}, .number = value}}};
}

}  // namespace

Trials::Trials(TrialSettings settings) : settings_(std::move(settings)) {
  std::string left_out;
  for (auto& result : sweep::read_results(settings_.into / "results.jsonl", &left_out)) {
    results_[result.cell] = std::move(result);
  }
  if (!left_out.empty()) std::cerr << "normball: " << left_out << "; its run is read again\n";
}

Trials::Run Trials::run_of(const TuningTrial& trial) const {
  Run run{.plan = {.name = "tune",
                   .base = settings_.base,
                   .settings = settings_.settings,
                   .axes = {},
                   .seeds = {settings_.seeds.at(static_cast<size_t>(trial.repeat))},
                   .metric = settings_.metric.text()},
          .cell = {}};
  if (trial.point.rho) run.plan.axes.push_back(axis_of("rho", *trial.point.rho));
  run.plan.axes.push_back(axis_of("lr", trial.point.lr));
  run.cell = sweep::cells_of(run.plan).front();
  return run;
}

sweep::Plan Trials::plan() const {
  sweep::Plan plan;
  if (!used_.empty() && used_.front().place.contains("rho")) {
    plan.axes.push_back({.name = "rho", .values = {}});
  }
  plan.axes.push_back({.name = "lr", .values = {}});
  return plan;
}

// A run that was diverging at any step has diverged, whether or not it was ended for that.
sweep::Result Trials::result_of(const Run& run, const std::string& failure) const {
  const fs::path directory = settings_.into / run.cell.name;
  auto result = sweep::result_of(run.plan, run.cell, directory, failure);
  if (result.status == sweep::Status::Finished && is_diverging(curve_of(directory, "loss"))) {
    result.status = sweep::Status::Diverged;
    result.reason = "ten losses in a row were above three times the first";
  }
  return result;
}

TuningOutcome Trials::outcome_of(const sweep::Result& result) const {
  TuningOutcome outcome;
  const auto curve = result.curves.find(settings_.metric.curve);
  if (result.status != sweep::Status::Finished || curve == result.curves.end()) return outcome;
  const double sign = sweep::higher_is_better(settings_.metric.curve) ? -1 : 1;
  outcome.score = sign * sweep::value_of(curve->second, settings_.metric);
  const fs::path directory = settings_.into / result.cell;
  outcome.s = curve_of(directory, "dual_norm");
  if (settings_.metric.curve == "loss") outcome.first = curve_of(directory, "loss").at(0);
  return outcome;
}

void Trials::announce(TuningStage stage, std::span<const TuningTrial> trials,
                      size_t missing) const {
  std::string points;
  for (const auto& trial : trials) {
    if (trial.repeat > 1) continue;
    points += (points.empty() ? "" : "; ") + to_string(trial.point);
  }
  std::cerr << to_string(stage) << ": " << points;
  if (missing < trials.size()) {
    std::cerr << " (" << trials.size() - missing << " of " << counted(ssize(trials), "run")
              << (trials.size() - missing == 1 ? " is" : " are") << " there already)";
  }
  const auto left = static_cast<size_t>(settings_.most) - used_.size();
  std::cerr << "; at most " << counted(static_cast<std::int64_t>(left), "run") << " to go";
  if (ended_ > 0) {
    const double each = spent_.count() / static_cast<double>(ended_);
    std::cerr << ", " << trainer::runtime::duration_text(each * static_cast<double>(left));
  }
  std::cerr << '\n' << std::flush;
}

void Trials::check(std::span<const TuningTrial> trials) const {
  for (const auto& trial : trials) {
    const auto run = run_of(trial);
    check_cells(run.plan, {run.cell}, settings_.into, settings_.threads);
  }
}

void Trials::run_missing(const std::vector<Run>& missing) {
  std::vector<Job> jobs;
  for (const auto& run : missing) {
    jobs.push_back(job_of(settings_.base, run.cell, settings_.into, settings_.threads));
  }
  RunsProgress progress(jobs.size());
  std::string failed;
  const auto begin = std::chrono::steady_clock::now();
  run_side_by_side(
      jobs, settings_.jobs,
      [&](size_t job, const std::string& failure) {
        const auto result = result_of(missing[job], failure);
        results_[result.cell] = result;
        std::vector<sweep::Result> all;
        for (const auto& [cell, known] : results_) all.push_back(known);
        sweep::write_results(settings_.into / "results.jsonl", all);
        progress.ended(result.status == sweep::Status::Finished);
        if (result.status == sweep::Status::Failed) failed = result.reason;
        return failed.empty();
      },
      [&](size_t job) {
        return is_diverging(curve_of(settings_.into / missing[job].cell.name, "loss"));
      });
  spent_ += std::chrono::steady_clock::now() - begin;
  ended_ += missing.size();
  if (!failed.empty()) {
    throw std::runtime_error(
        error_message("tune", "a run failed: ", failed, "\nThe same command tries again"));
  }
}

std::vector<TuningOutcome> Trials::run(TuningStage stage, std::span<const TuningTrial> trials) {
  check(trials);
  std::vector<Run> runs, missing;
  for (const auto& trial : trials) {
    runs.push_back(run_of(trial));
    const auto& run = runs.back();
    const auto known = results_.find(run.cell.name);
    const bool there =
        known != results_.end() && known->second.status != sweep::Status::Failed &&
        still_holds(run.plan, run.cell, known->second, settings_.into, settings_.threads);
    if (!there) missing.push_back(run);
  }
  announce(stage, trials, missing.size());
  if (!missing.empty()) run_missing(missing);
  std::vector<TuningOutcome> outcomes;
  for (const auto& run : runs) {
    used_.push_back(results_.at(run.cell.name));
    outcomes.push_back(outcome_of(used_.back()));
  }
  return outcomes;
}

}  // namespace normball::cli
