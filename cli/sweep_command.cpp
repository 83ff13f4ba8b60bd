// `normball sweep`: one configuration at many places along axes and for several seeds.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/sweep_cells.h"
#include "cli/sweep_runs.h"
#include "cli/table.h"
#include "normball/base/error.h"
#include "normball/base/processor.h"
#include "normball/base/text.h"
#include "trainer/config/config.h"
#include "trainer/files/atomic_file.h"
#include "trainer/sweep/page.h"
#include "trainer/sweep/pictures.h"
#include "trainer/sweep/plan.h"
#include "trainer/sweep/results.h"
#include "trainer/sweep/summary.h"

namespace normball::cli {
namespace {

namespace fs = std::filesystem;
namespace sweep = trainer::sweep;
using sweep::Cell;
using sweep::Plan;
using sweep::Result;

struct Options {
  std::string file, base, name, into, metric, halving;
  std::vector<std::string> axes, settings;
  std::vector<std::int64_t> seeds;
  int jobs = 0, threads = 1;
  bool dry_run = false, report_only = false;
};

std::string key_of(const std::string& setting) { return setting.substr(0, setting.find('=')); }

void refuse_own_keys(std::string_view where, const std::vector<std::string>& settings) {
  static const OwnKeys keys = {{"run.seed", "; use seeds, or --seeds"},
                               {"run.dir", "; use --into"},
                               {"run.name", "; use --name for the sweep's"},
                               {"run.resume", "; a sweep always resumes its own runs"},
                               {"run.threads", "; use --threads"}};
  refuse_keys(where, settings, "the sweep", keys);
}

// The settings of every run, and the axes, that a key is given by.
void refuse_repeated_keys(const Plan& plan, const Options& options, size_t axes_of_file) {
  const auto refuse = [&](bool by_user, const std::string& key, const std::string& places) {
    const std::string text = key + " is given twice, " + places + "; leave one out";
    if (by_user) throw CLI::ValidationError(text);
    throw std::runtime_error(error_message("sweep", options.file, ": ", text));
  };
  std::map<std::string, size_t> axis_with;  // a key, and the axis that has it
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    const bool by_user = i >= axes_of_file;
    const std::string axis = (by_user ? "--axis " : "the axis ") + plan.axes[i].name;
    for (const auto& value : plan.axes[i].values) {
      for (const auto& setting : value.settings) {
        const std::string key = key_of(setting);
        const auto [known, first] = axis_with.emplace(key, i);
        if (!first && known->second != i) {
          const auto& other = plan.axes[known->second];
          refuse(by_user, key, "on the axis " + other.name + " and on " + axis);
        }
        const auto same = [&](const auto& set) { return key_of(set) == key; };
        const auto all = std::ranges::find_if(plan.settings, same);
        if (all == plan.settings.end()) continue;
        const bool set_by_user = std::ranges::any_of(options.settings, same);
        refuse(by_user || set_by_user, key,
               (set_by_user ? "by --set " : "by set = \"") + *all + (set_by_user ? "" : "\"") +
                   " and on " + axis);
      }
    }
  }
}

Plan plan_of(const Options& options) {
  if (options.file.empty() == options.base.empty()) {
    throw CLI::ValidationError("sweep", options.file.empty()
                                            ? "name a sweep file, or a configuration with --base"
                                            : "name a sweep file or a configuration with --base, "
                                              "not both");
  }
  refuse_own_keys("--set", options.settings);
  Plan plan;
  if (!options.file.empty()) {
    plan = sweep::read_plan(options.file);
  } else {
    plan.base = options.base;
    plan.name = fs::path(options.base).stem().string();
  }
  const size_t axes_of_file = plan.axes.size();
  for (const auto& text : options.axes) plan.axes.push_back(sweep::parse_axis(text));
  for (const auto& setting : options.settings) {  // take the place of the file's
    std::erase_if(plan.settings,
                  [&](const auto& before) { return key_of(before) == key_of(setting); });
    plan.settings.push_back(setting);
  }
  refuse_own_keys("set", plan.settings);
  for (const auto& axis : plan.axes) {
    refuse_own_keys("axis", {axis.factor_of});
    for (const auto& value : axis.values) refuse_own_keys("axis", value.settings);
  }
  refuse_repeated_keys(plan, options, axes_of_file);
  if (!options.seeds.empty()) plan.seeds = options.seeds;
  if (!options.name.empty()) plan.name = options.name;
  if (!options.metric.empty()) plan.metric = options.metric;
  if (!options.halving.empty()) plan.halving = sweep::parse_halving(options.halving);
  trainer::config::validate_name(plan.name, options.name.empty() ? options.file : "--name");
  if (options.metric.empty()) {
    sweep::check_metric(plan.metric);
  } else {
    named_by_user([&] { sweep::check_metric(plan.metric); });
  }
  if (plan.axes.empty() && plan.seeds.size() == 1) {
    throw CLI::ValidationError("sweep",
                               "there is nothing to change: give an axis or several seeds");
  }
  return plan;
}

// What was given on the command line is wrong there; the rest is wrong in the file.
std::vector<Cell> cells_of(const Plan& plan, const Options& options) {
  const auto cells = [&] {
    auto all = sweep::cells_of(plan);
    for (const auto& cell : all) {
      trainer::config::validate_name(cell.name, "sweep: give values a label, or an axis a name");
    }
    return all;
  };
  const bool by_user = options.file.empty() || !options.axes.empty() || !options.seeds.empty();
  return by_user ? named_by_user(cells) : cells();
}

// Results that still hold: of cells of this plan, with the same settings, that ended by themselves
// and whose run directories are there. Failed ones are tried again, since the reason may be gone.
CellResults known_results(const Plan& plan, const std::vector<Cell>& cells, const fs::path& into,
                          int threads) {
  CellResults known;
  std::string left_out;
  for (auto& result : sweep::read_results(into / "results.jsonl", &left_out)) {
    const auto cell = std::ranges::find(cells, result.cell, &Cell::name);
    if (cell == cells.end() || !still_holds(plan, *cell, result, into, threads)) continue;
    known.insert_or_assign(result.cell, std::move(result));
  }
  if (!left_out.empty()) {
    std::cerr << "normball: " << left_out << "; without --report its run is read again\n";
  }
  return known;
}

std::string interval_text(const sweep::Metric& metric, const sweep::Estimate& estimate) {
  if (estimate.count < 2) return "";
  return sweep::value_text(metric, estimate.low) + " to " +
         sweep::value_text(metric, estimate.high);
}

void print_summary(const Plan& plan, const sweep::Summary& summary) {
  std::vector<std::string> header;
  for (const auto& axis : plan.axes) header.push_back(axis.name);
  if (header.empty()) header.emplace_back("base");
  header.push_back(summary.metric.text());
  if (plan.seeds.size() > 1) header.emplace_back("95 % interval");
  header.emplace_back("");
  Table table(header);
  for (size_t i = 0; i < summary.points.size(); ++i) {
    const auto& point = summary.points[i];
    std::vector<std::string> row;
    for (size_t k = 0; k < plan.axes.size(); ++k)
      row.push_back(plan.axes[k].values[point.at[k]].label);
    if (row.empty()) row.push_back(plan.base);
    const auto estimate = point.estimate();
    row.push_back(estimate ? sweep::value_text(summary.metric, estimate->value) : "-");
    if (plan.seeds.size() > 1)
      row.push_back(estimate ? interval_text(summary.metric, *estimate) : "");
    std::string note = summary.best != i ? "" : summary.complete() ? "best" : "best so far";
    if (point.diverged > 0) note = std::to_string(point.diverged) + " diverged";
    if (point.failed > 0) note = std::to_string(point.failed) + " failed";
    if (point.missing > 0) note = std::to_string(point.missing) + " not run";
    if (point.stopped > 0) note = point.stop;
    row.push_back(note);
    table.add(row);
  }
  table.print(std::cout);
  std::cout << '\n';
  for (const auto& remark : summary.remarks) std::cout << "- " << remark << '\n';
}

// Of an earlier report, which may have been of other axes.
void remove_pictures(const fs::path& into) {
  for (const auto& entry : fs::directory_iterator(into)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.starts_with("heat-map") || name.starts_with("over-") ||
                      name == "axes.svg" || name == "curves.svg";
    if (ours && name.ends_with(".svg") && entry.is_regular_file()) fs::remove(entry.path());
  }
}

void report(const Plan& plan, const std::vector<Result>& results, const fs::path& into) {
  auto& files = trainer::files::FileSystem::real();
  const auto summary = sweep::summarize(plan, results);
  const auto pictures = sweep::pictures_of(plan, summary, into);
  trainer::files::write_file_atomically(files, into / "results.csv", sweep::to_csv(plan, results));
  remove_pictures(into);
  for (const auto& picture : pictures)
    trainer::files::write_file_atomically(files, into / picture.file, picture.svg);
  trainer::files::write_file_atomically(files, into / "sweep.html",
                                        sweep::page_of(plan, summary, results, pictures));
  print_summary(plan, summary);
  std::cout << "\nThe page: " << (into / "sweep.html").string()
            << "; the numbers: " << (into / "results.csv").string() << '\n';
}

void sweep_over(const Options& options) {
  const Plan plan = plan_of(options);
  const auto cells = cells_of(plan, options);
  const fs::path into =
      options.into.empty() ? fs::path("runs") / plan.name : fs::path(options.into);
  if (fs::exists(into / "config.toml")) {
    throw std::runtime_error(error_message("sweep", into.string(),
                                           " is the directory of a run; name another with --into"));
  }
  check_cells(plan, cells, into, options.threads);
  const int jobs = options.jobs > 0 ? options.jobs : std::max(1, usable_cpus() / options.threads);
  const CellRuns runs{
      .plan = plan, .cells = cells, .into = into, .at_once = jobs, .threads = options.threads};
  check_halving(runs);
  if (options.dry_run) {
    check_sweep_directory(into);
    known_results(plan, cells, into, options.threads);
    for (const auto& cell : cells) std::cout << cell.name << '\n';
    std::cout << counted(ssize(cells), "run") << " into " << into.string() << "/\n";
    return;
  }
  const auto refuse_without_results = [&] {
    throw std::runtime_error(
        error_message("sweep", into.string(), " has no results yet; run it without --report"));
  };
  if (options.report_only && !fs::exists(into)) refuse_without_results();
  trainer::files::make_directories(trainer::files::FileSystem::real(), into);
  const SweepLock lock(into);
  auto results = known_results(plan, cells, into, options.threads);
  if (!options.report_only) {
    std::cout << plan.base << ": " << counted(ssize(cells), "run") << " into " << into.string()
              << "/\n"
              << std::flush;
    run_cells(runs, results);
  }
  const auto ordered = in_order(cells, results);
  if (ordered.empty()) refuse_without_results();
  report(plan, ordered, into);
  const auto failed = std::ranges::count(ordered, sweep::Status::Failed, &Result::status);
  if (failed > 0) {
    const auto first = std::ranges::find(ordered, sweep::Status::Failed, &Result::status);
    throw std::runtime_error(error_message("sweep", failed, " of ", counted(ssize(ordered), "run"),
                                           " failed, the first because: ", first->reason,
                                           "; the same command tries again"));
  }
  if (std::ranges::none_of(
          ordered, [](const Result& result) { return result.status == sweep::Status::Finished; })) {
    const auto diverged = std::ranges::find(ordered, sweep::Status::Diverged, &Result::status);
    throw std::runtime_error(error_message(
        "sweep", "no run has a result: ", ordered.size() == 1 ? "it" : "all that ended",
        " diverged, the first because: ",
        diverged == ordered.end() ? ordered.front().reason : diverged->reason));
  }
}

}  // namespace

void add_sweep_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("sweep", "Train one configuration along axes and over seeds; compare");
  command
      ->add_option("file", options->file,
                   "Sweep file (TOML): base, set, seeds, metric, halving, [[axis]]")
      ->check(CLI::ExistingFile);
  command->add_option("--base", options->base, "Without a file: the configuration file or preset");
  command
      ->add_option(
          "--axis", options->axes,
          "section.key=value,value,... or \"key = 'section.key', log = [a, b], points = n\"; "
          "repeat it for each axis")
      ->check(read_by([](const std::string& text) { sweep::parse_axis(text); }));
  command->add_option("--seeds", options->seeds, "The seeds, instead of the file's")
      ->check(integer_in(0, INT32_MAX));
  command->add_option(
      "--metric", options->metric,
      "What to compare: a curve (val_loss, val_accuracy, loss), with last, tail or "
      "best after a space; default: the last val_accuracy, val_loss or loss, whichever the "
      "runs have first");
  command
      ->add_option("--halving", options->halving,
                   "Early stopping, of searches only: FIRST[,FACTOR]: at step FIRST, and then each "
                   "time after FACTOR (3) times as many, one in FACTOR points goes on")
      ->check(read_by([](const std::string& text) { sweep::parse_halving(text); }));
  add_settings(*command, options->settings);
  command->add_option("--name", options->name, "Name of the sweep; default: the file's");
  command->add_option("--into", options->into,
                      "Directory of the runs and results; those already there are not run again; "
                      "default: runs/NAME");
  command->add_option("--jobs", options->jobs, "Runs at a time; 0: cores divided by --threads")
      ->check(integer_in(0, 4096))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads of each run")
      ->check(integer_in(1, 4096))
      ->capture_default_str();
  auto* dry_run = command->add_flag("--dry-run", options->dry_run,
                                    "Check every configuration and list the runs; start none");
  command
      ->add_flag("--report", options->report_only, "Only write the table, pictures and page again")
      ->excludes(dry_run);
  command->callback([options] { sweep_over(*options); });
}

}  // namespace normball::cli
