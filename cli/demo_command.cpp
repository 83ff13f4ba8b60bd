// `normball demo`: Scion and ClippedScion at several fixed stepsizes and seeds, compared.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/demonstration.h"
#include "cli/options.h"
#include "cli/side_by_side.h"
#include "normball/base/error.h"
#include "normball/base/processor.h"
#include "normball/base/text.h"
#include "trainer/config/config.h"
#include "trainer/files/atomic_file.h"
#include "trainer/run/metrics.h"
#include "trainer/runtime/progress.h"
#include "trainer/runtime/terminal.h"

namespace normball::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<double> lrs = {0.003, 0.01, 0.03, 0.1};
  int seeds = 3;
  int steps = 300;
  int jobs = 0;
  std::string into = "runs/demo";
};

struct Cell {
  bool clipped;
  double lr;
  int seed;

  std::string preset() const {
    return clipped ? "demo-unconstrained-clipped-scion" : "demo-unconstrained-scion";
  }
  std::string name() const {
    return (clipped ? "clipped-scion-lr" : "scion-lr") + number_text(lr) + "-seed" +
           std::to_string(seed);
  }
};

std::vector<Cell> cells_of(const Options& options) {
  std::vector<Cell> cells;
  for (int seed = 0; seed < options.seeds; ++seed) {
    for (const double lr : options.lrs) {
      for (const bool clipped : {false, true}) cells.push_back({clipped, lr, seed});
    }
  }
  return cells;
}

// Cells that have ended are read again, so a demonstration that was interrupted continues.
Job job_of(const Cell& cell, const Options& options) {
  const fs::path into = options.into;
  return {.name = (into / cell.name()).string(),
          .command = {"/proc/self/exe", "train", cell.preset(), "--name", cell.name(), "--resume",
                      "--set", "run.dir=" + into.string(), "--set",
                      "run.seed=" + std::to_string(cell.seed), "--set",
                      "run.steps=" + std::to_string(options.steps), "--set",
                      "optimizer.lr=" + printed("%.17g", cell.lr)},
          .log = into / (cell.name() + ".log")};
}

DemoRun read_cell(const Cell& cell, const fs::path& into) {
  const fs::path directory = into / cell.name();
  const auto config = trainer::config::load_config((directory / "config.toml").string());
  const double smallest = smallest_loss(config.train.label_smoothing, 10);
  DemoRun result{.clipped = cell.clipped, .lr = cell.lr, .seed = cell.seed};
  for (const auto& line : trainer::run::read_metrics(directory / "metrics.jsonl").lines) {
    if (const auto loss = line.number("loss")) result.excess.push_back(*loss - smallest);
    if (const auto s = line.number("dual_norm")) {
      result.last_step = cell.clipped ? std::min(1.0, *s / config.optimizer.rho.value().number) : 1;
    }
    if (const auto accuracy = line.number("val_accuracy")) result.accuracy = *accuracy;
  }
  return result;
}

// A run goes on to more steps, but not back to fewer.
void require_no_longer_runs(const std::vector<Cell>& cells, const Options& options) {
  for (const auto& cell : cells) {
    const fs::path run = fs::path(options.into) / cell.name();
    if (!fs::exists(run / "metrics.jsonl")) continue;
    const auto lines = trainer::run::read_metrics(run / "metrics.jsonl").lines;
    if (lines.empty() || lines.back().step <= options.steps) continue;
    throw CLI::ValidationError(
        "--steps",
        error_message("demo", run.string(), " has taken ", counted(lines.back().step, "step"),
                      ", more than the ", options.steps,
                      " requested; request at least as many, or name another directory with "
                      "--into"));
  }
}

void train_cells(const std::vector<Cell>& cells, const Options& options) {
  std::vector<Job> jobs;
  for (const auto& cell : cells) jobs.push_back(job_of(cell, options));
  RunsProgress progress(jobs.size());
  std::string failed;
  const auto note_end = [&](size_t, const std::string& failure) {
    if (failed.empty()) failed = failure;
    progress.ended(failure.empty());
    return failed.empty();
  };
  run_side_by_side(jobs, options.jobs > 0 ? options.jobs : usable_cpus(), note_end);
  if (!failed.empty()) throw std::runtime_error(error_message("demo", failed));
}

void demonstrate(const Options& options) {
  const fs::path into = options.into;
  const auto cells = cells_of(options);
  require_no_longer_runs(cells, options);
  std::cout << "Unconstrained Scion (steps of length lr) and Unconstrained ClippedScion (lr min(1, "
               "s/rho)),\nan MLP on 1000 images of Fashion-MNIST, all of them in every step; "
            << options.lrs.size()
            << (options.lrs.size() == 1 ? " fixed stepsize,\n" : " fixed stepsizes,\n")
            << counted(options.seeds, "seed") << ". Into " << into.string() << "/.\n\n"
            << std::flush;
  trainer::files::make_directories(trainer::files::FileSystem::real(), into);
  train_cells(cells, options);

  std::vector<DemoRun> runs;
  for (const auto& cell : cells) runs.push_back(read_cell(cell, into));
  const auto figure = demo_figure(runs);
  const fs::path picture = into / "demo.svg";
  trainer::files::write_file_atomically(trainer::files::FileSystem::real(), picture,
                                        plot::to_svg(figure));
  if (isatty(STDOUT_FILENO) != 0) {
    const int columns = std::min(100, trainer::runtime::terminal_columns());
    std::cout << '\n' << plot::to_terminal(figure, columns, 20, trainer::runtime::shows_colors());
  }
  std::cout
      << "\nExcess loss: how far the loss is above the smallest possible one in the last tenth of "
      << counted(ssize(runs.front().excess), "step") << "\n(geometric mean).\n\n";
  demo_table(runs).print(std::cout);
  std::cout << '\n'
            << demo_conclusion(runs) << "\n\nThe picture: " << picture.string()
            << "\nThe curves of every run: normball report " << into.string() << "/*-seed0\n";
}

}  // namespace

void add_demo_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* demo = app.add_subcommand(
      "demo", "Train a small network with and without clipping at several stepsizes; compare");
  demo->add_option("--lr", options->lrs, "The stepsizes; repeated ones count once")
      ->check(number_in({.low = 0, .high = 1e30, .low_open = true}))
      ->capture_default_str();
  demo->add_option("--seeds", options->seeds, "Runs for each method and stepsize")
      ->check(integer_in(1, 1000))
      ->capture_default_str();
  demo->add_option("--steps", options->steps, "Steps of each run")
      ->check(integer_in(1, 1'000'000))
      ->capture_default_str();
  demo->add_option("--jobs", options->jobs, "Runs at a time, on one thread each; 0: one per core")
      ->check(integer_in(0, 4096))
      ->capture_default_str();
  demo->add_option("--into", options->into,
                   "Directory of the runs; those already there are used, not computed again")
      ->capture_default_str();
  demo->callback([options] {
    options->lrs = different_stepsizes(options->lrs);
    demonstrate(*options);
  });
}

}  // namespace normball::cli
