#include "cli/sweep_cells.h"

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <set>

#include "cli/side_by_side.h"
#include "cli/sweep_runs.h"
#include "cli/table.h"
#include "normball/base/error.h"
#include "normball/base/text.h"
#include "trainer/config/config.h"
#include "trainer/sweep/halving.h"
#include "trainer/sweep/summary.h"

namespace normball::cli {
namespace {

namespace fs = std::filesystem;
namespace sweep = trainer::sweep;
using sweep::Cell;
using sweep::Result;
using sweep::Status;

// Of other plans in the same directory, whose runs are still there.
std::vector<Result> other_results(const CellRuns& runs) {
  auto results = sweep::read_results(runs.into / "results.jsonl");
  std::erase_if(results, [&](const Result& result) {
    return std::ranges::find(runs.cells, result.cell, &Cell::name) != runs.cells.end() ||
           !fs::exists(runs.into / result.cell);
  });
  return results;
}

double processor_seconds(int who) {
  rusage used{};
  ::getrusage(who, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// The steps between two values of a curve in a run.
std::int64_t interval_of(std::string_view curve, const trainer::config::Config& config,
                         std::string_view& key) {
  const auto& run = config.run;
  const auto with = [&key](std::string_view name, std::int64_t every) {
    key = name;
    return every;
  };
  if (curve.starts_with("val_") || curve.starts_with("iterate_")) {
    return with("run.eval_every", run.eval_every);
  }
  if (curve.starts_with("full_")) return with("run.gap_every", run.gap_every);
  if (curve.starts_with("probe_")) return with("run.probe_every", run.probe_every);
  return with("run.log_every", run.log_every);
}

class Execution {
 public:
  Execution(const CellRuns& runs, CellResults& results)
      : runs_(runs), results_(results), others_(other_results(runs)) {}

  void run() {
    std::vector<Cell> alive = runs_.cells;
    std::erase_if(results_, [](const auto& item) {  // decided anew, or not at all
      return item.second.status == Status::Stopped;
    });
    say_what_is_there();
    if (runs_.plan.halving) {
      const auto steps = steps_of(runs_.cells.front());
      for (const auto rung : sweep::rungs_of(*runs_.plan.halving, steps)) {
        train(alive, rung);
        alive = those_that_go_on(alive, rung, steps);
      }
    }
    train(alive, 0);
  }

 private:
  std::int64_t steps_of(const Cell& cell) const {
    return trainer::config::load_config(runs_.plan.base,
                                        settings_of(cell, runs_.into, runs_.threads))
        .run.steps;
  }

  const Result* known(const Cell& cell) const {
    const auto found = results_.find(cell.name);
    return found == results_.end() ? nullptr : &found->second;
  }

  bool has_ended(const Cell& cell) const {
    const Result* result = known(cell);
    return result != nullptr && result->status != Status::Failed;
  }

  void say_what_is_there() const {
    const auto there =
        std::ranges::count_if(runs_.cells, [&](const Cell& cell) { return has_ended(cell); });
    if (there == 0) return;
    std::cerr << there << " of " << counted(std::ssize(runs_.cells), "run")
              << (there == 1 ? " is" : " are") << " there already\n";
  }

  void record(const Result& result) {
    results_.insert_or_assign(result.cell, result);
    auto all = in_order(runs_.cells, results_);
    all.insert(all.end(), others_.begin(), others_.end());
    sweep::write_results(runs_.into / "results.jsonl", all);
  }

  // Until this step of each run, or its end (0).
  void train(const std::vector<Cell>& cells, std::int64_t until) {
    std::vector<Cell> to_run;
    for (const auto& cell : cells) {
      const bool there = until > 0 && steps_taken(runs_.into / cell.name) >= until;
      if (!has_ended(cell) && !there) to_run.push_back(cell);
    }
    std::vector<Job> jobs;
    for (const auto& cell : to_run) {
      jobs.push_back(job_of(runs_.plan.base, cell, runs_.into, runs_.threads));
      if (until > 0) {
        jobs.back().command.insert(jobs.back().command.end(), {"--stop-at", std::to_string(until)});
      }
    }
    if (until > 0 && !jobs.empty()) {
      std::cerr << counted(std::ssize(jobs), "run") << " to step " << until << '\n';
    }
    RunsProgress progress(to_run.size());
    run_side_by_side(jobs, runs_.at_once, [&](size_t job, const std::string& failure) {
      bool well = failure.empty();
      if (until == 0 || !well) {
        const auto result =
            sweep::result_of(runs_.plan, to_run[job], runs_.into / to_run[job].name, failure);
        well = result.status == Status::Finished;
        record(result);
      }
      progress.ended(well);
      return true;
    });
  }

  std::vector<Cell> those_that_go_on(const std::vector<Cell>& cells, std::int64_t rung,
                                     std::int64_t steps) {
    const auto metric = sweep::metric_of(runs_.plan.metric, {});
    std::vector<std::vector<Cell>> points;
    for (const auto& cell : cells) {  // the seeds of a point follow each other
      if (points.empty() || points.back().front().at != cell.at) points.emplace_back();
      points.back().push_back(cell);
    }
    std::vector<std::optional<double>> means;
    for (const auto& point : points) means.push_back(mean_at(point, metric, rung));
    const auto ranking =
        sweep::rank(means, runs_.plan.halving->factor, sweep::higher_is_better(metric.curve));
    const std::string place = "step " + std::to_string(rung) + " of " + std::to_string(steps);
    std::cerr << place << ": " << ranking.go_on << " of " << counted(std::ssize(points), "point")
              << (ranking.go_on == 1 ? " goes on\n" : " go on\n");
    std::vector<Cell> next;
    for (size_t i = 0; i < points.size(); ++i) {
      if (ranking.goes_on(i)) {
        next.insert(next.end(), points[i].begin(), points[i].end());
      } else {
        stop(points[i], steps, ranking.reason(i, place, metric, means[i]));
      }
    }
    return next;
  }

  // Over the seeds.
  std::optional<double> mean_at(const std::vector<Cell>& point, const sweep::Metric& metric,
                                std::int64_t rung) const {
    double sum = 0;
    for (const auto& cell : point) {
      const auto value = sweep::value_at(runs_.into / cell.name, metric, rung);
      if (!value) return std::nullopt;
      sum += *value;
    }
    return sum / static_cast<double>(point.size());
  }

  // What has ended already stays what it is.
  void stop(const std::vector<Cell>& point, std::int64_t steps, const std::string& reason) {
    for (const auto& cell : point) {
      if (known(cell) != nullptr) continue;
      auto result = sweep::result_of(runs_.plan, cell, runs_.into / cell.name, "");
      if (result.status == Status::Finished && result.steps < steps) {
        result.status = Status::Stopped;
        result.reason = reason;
      }
      record(result);
    }
  }

  const CellRuns& runs_;
  CellResults& results_;
  std::vector<Result> others_;
};

}  // namespace

std::vector<Result> in_order(const std::vector<Cell>& cells, const CellResults& results) {
  std::vector<Result> ordered;
  for (const auto& cell : cells) {
    if (const auto found = results.find(cell.name); found != results.end())
      ordered.push_back(found->second);
  }
  return ordered;
}

void check_halving(const CellRuns& runs) {
  const auto& plan = runs.plan;
  if (!plan.halving) return;
  const auto wrong = [](const auto&... parts) {
    throw std::runtime_error(error_message("sweep", "early stopping (halving) ", parts...));
  };
  if (plan.metric.empty()) wrong("needs to be told what it compares: metric = \"val_loss\"");
  const auto metric = sweep::metric_of(plan.metric, {});
  const std::int64_t first = plan.halving->first;
  std::int64_t steps = 0;
  for (const auto& cell : runs.cells) {
    const auto config =
        trainer::config::load_config(plan.base, settings_of(cell, runs.into, runs.threads));
    if (config.run.steps == 0) {
      wrong("needs run.steps; ", cell.name, " has run.epochs = ", config.run.epochs);
    }
    if (steps == 0) steps = config.run.steps;
    if (config.run.steps != steps) {
      wrong("compares runs of one length, but ", cell.name, " has run.steps = ", config.run.steps,
            " and ", runs.cells.front().name, " ", steps);
    }
    if (first >= steps) wrong("first = ", first, " must be below run.steps = ", steps);
    std::string_view key;
    const std::int64_t every = interval_of(metric.curve, config, key);
    if (every > 0 && first % every == 0) continue;
    wrong("first = ", first, " must be a multiple of ", key, " = ", every, ", at which ", cell.name,
          " has a ", metric.curve);
  }
}

void run_cells(const CellRuns& runs, CellResults& results) {
  const double before = processor_seconds(RUSAGE_CHILDREN);
  Execution(runs, results).run();
  const double children = processor_seconds(RUSAGE_CHILDREN) - before;
  if (children == 0) return;
  std::cerr << printed("the runs took %.1f s of processor time, the sweep itself %.2f s\n",
                       children, processor_seconds(RUSAGE_SELF));
}

}  // namespace normball::cli
