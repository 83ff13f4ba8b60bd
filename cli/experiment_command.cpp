// `normball experiment`: the questions of experiments/, asked of this machine.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/side_by_side.h"
#include "cli/sweep_runs.h"
#include "cli/table.h"
#include "normball/base/error.h"
#include "normball/base/processor.h"
#include "trainer/experiment/decision.h"
#include "trainer/experiment/experiment.h"
#include "trainer/experiment/page.h"
#include "trainer/experiment/pictures.h"
#include "trainer/files/atomic_file.h"

namespace normball::cli {
namespace {

namespace fs = std::filesystem;
namespace experiment = trainer::experiment;
namespace sweep = trainer::sweep;
using experiment::Experiment;
using experiment::Outcome;
using experiment::Outcomes;

struct Options {
  std::string name, into = "runs/experiments";
  std::vector<std::string> settings;
  int jobs = 0, threads = 1;
  bool quick = false, record = false, dry_run = false, markdown = false;
};

// A run that is to be there.
struct Task {
  std::string owner, arm;
  sweep::Plan plan;
  sweep::Cell cell;
  fs::path into;
};

Experiment experiment_of(const Options& options) {
  auto asked = experiment::read_experiment(experiment::find_experiment(options.name));
  if (options.quick) asked = experiment::quick_version(asked);
  asked.settings = experiment::overridden(asked.settings, options.settings);
  asked.changed = experiment::overridden(asked.changed, options.settings);
  return asked;
}

std::set<std::string> owners_of(const Experiment& asked) {
  std::set<std::string> owners = {asked.name};
  for (const auto& arm : asked.arms) owners.insert(arm.owner);
  return owners;
}

fs::path recorded_file(const Experiment& asked, const std::string& owner) {
  return asked.folder.parent_path() / owner / "results.jsonl";
}

// Later ones take the place of earlier ones of the same cell.
void merge(std::vector<Outcome>& known, std::vector<Outcome> more) {
  for (auto& outcome : more) {
    const auto same = std::ranges::find_if(known, [&](const Outcome& other) {
      return other.arm == outcome.arm && other.result.cell == outcome.result.cell;
    });
    if (same != known.end()) {
      *same = std::move(outcome);
    } else {
      known.push_back(std::move(outcome));
    }
  }
}

std::vector<Outcome> read_outcomes(const fs::path& file) {
  std::string left_out;
  auto outcomes = experiment::read_outcomes(file, &left_out);
  if (!left_out.empty()) {
    std::cerr << "normball: " << left_out << "; `experiment run` reads its run again\n";
  }
  return outcomes;
}

Outcomes recorded(const Experiment& asked) {
  Outcomes outcomes;
  for (const auto& owner : owners_of(asked)) {
    outcomes[owner] = read_outcomes(recorded_file(asked, owner));
  }
  return outcomes;
}

Outcomes own_runs(const Experiment& asked, const fs::path& into) {
  Outcomes outcomes;
  for (const auto& owner : owners_of(asked)) {
    outcomes[owner] = read_outcomes(into / owner / "results.jsonl");
  }
  return outcomes;
}

bool empty(const Outcomes& outcomes) {
  return std::ranges::all_of(outcomes, [](const auto& entry) { return entry.second.empty(); });
}

std::vector<Task> tasks_of(const experiment::Arm& arm, const sweep::Plan& plan,
                           const fs::path& into) {
  std::vector<Task> tasks;
  for (const auto& cell : sweep::cells_of(plan)) {
    tasks.push_back({arm.owner, arm.name, plan, cell, into / arm.owner / arm.name});
  }
  return tasks;
}

std::vector<Task> tuning_tasks(const Experiment& asked, const fs::path& into) {
  std::vector<Task> tasks;
  for (const auto& arm : asked.arms) {
    if (arm.tuning_points() == 1) continue;
    std::ranges::copy(tasks_of(arm, experiment::tuning_plan(asked, arm), into),
                      std::back_inserter(tasks));
  }
  return tasks;
}

std::vector<Task> deciding_tasks(const Experiment& asked, const experiment::Decision& decision,
                                 const fs::path& into) {
  std::vector<Task> tasks;
  for (const auto& arm : asked.arms) {
    const auto& chosen = decision.arms.at(arm.name).chosen;
    if (!chosen) continue;
    std::ranges::copy(tasks_of(arm, experiment::deciding_plan(asked, arm, *chosen), into),
                      std::back_inserter(tasks));
  }
  // Seed by seed: what is interrupted has whole pairs.
  std::ranges::stable_sort(tasks, {}, [](const Task& task) { return task.cell.seed; });
  return tasks;
}

// What is committed: the runs that the folder asks for, and curves only of those that decide.
void record_one(const Experiment& asked, const Outcomes& outcomes) {
  const auto decision = experiment::decide(asked, outcomes);
  std::vector<Outcome> kept;
  for (const auto& arm : asked.arms) {
    if (arm.owner != asked.name) continue;
    const auto keep = [&](const sweep::Plan& plan, bool deciding) {
      for (const auto& cell : sweep::cells_of(plan)) {
        const auto* found = experiment::find_outcome(outcomes.at(arm.owner), arm.name, cell);
        if (found == nullptr || found->result.status == sweep::Status::Failed) continue;
        kept.push_back(*found);
        if (!deciding) kept.back().curves.clear();
      }
    };
    if (arm.tuning_points() > 1) keep(experiment::tuning_plan(asked, arm), false);
    const auto& chosen = decision.arms.at(arm.name).chosen;
    if (chosen) keep(experiment::deciding_plan(asked, arm, *chosen), true);
  }
  if (!kept.empty()) experiment::write_outcomes(recorded_file(asked, asked.name), kept);
  trainer::files::write_file_atomically(trainer::files::FileSystem::real(),
                                        asked.folder / "verdict.txt",
                                        experiment::verdict_text(asked, decision));
}

// Also in the folders of the experiments whose arms this one has.
void record(const Experiment& asked, const Outcomes& outcomes) {
  for (const auto& owner : owners_of(asked)) {
    const auto of_runs = owner == asked.name
                             ? asked
                             : experiment::read_experiment(asked.folder.parent_path() / owner);
    auto known = recorded(of_runs);
    for (const auto& [name, list] : outcomes) merge(known[name], list);
    record_one(of_runs, known);
  }
}

// How many failed.
size_t run_tasks(const Experiment& asked, const std::vector<Task>& tasks, const Options& options,
                 Outcomes& outcomes) {
  std::vector<Task> missing;
  for (const auto& task : tasks) {
    const auto* known = experiment::find_outcome(outcomes[task.owner], task.arm, task.cell);
    if (known == nullptr || known->result.status == sweep::Status::Failed) missing.push_back(task);
  }
  if (missing.size() < tasks.size()) {
    std::cerr << tasks.size() - missing.size() << " of " << tasks.size()
              << (tasks.size() == 1 ? " run is" : " runs are") << " there already\n";
  }
  std::vector<Job> jobs;
  for (const auto& task : missing) {
    check_cells(task.plan, {task.cell}, task.into, options.threads);
    trainer::files::make_directories(trainer::files::FileSystem::real(), task.into);
    jobs.push_back(job_of(task.plan.base, task.cell, task.into, options.threads));
  }
  const int at_once =
      options.jobs > 0 ? options.jobs : std::max(1, usable_cpus() / options.threads);
  RunsProgress progress(jobs.size());
  size_t failed = 0;
  run_side_by_side(jobs, at_once, [&](size_t job, const std::string& failure) {
    const auto& task = missing[job];
    const auto outcome =
        experiment::outcome_of(task.arm, task.plan, task.cell, task.into / task.cell.name, failure);
    auto& known = outcomes[task.owner];
    merge(known, {outcome});
    experiment::write_outcomes(fs::path(options.into) / task.owner / "results.jsonl", known);
    if (options.record) record(asked, outcomes);
    progress.ended(outcome.result.status == sweep::Status::Finished);
    failed += outcome.result.status == sweep::Status::Failed ? 1 : 0;
    return true;
  });
  return failed;
}

void print(const Experiment& asked, const experiment::Decision& decision) {
  Table table({"arm", "chosen", decision.metric.text() + ", mean (95 % interval)"});
  for (const auto& arm : asked.arms) {
    const auto& state = decision.arms.at(arm.name);
    table.add({arm.name, experiment::chosen_text(state),
               experiment::value_of_arm(state, decision.metric)});
  }
  table.print(std::cout, Table::Align::Left);
  std::cout << '\n' << experiment::verdict_text(asked, decision);
}

void report(const Experiment& asked, const Outcomes& outcomes, const fs::path& into) {
  auto& files = trainer::files::FileSystem::real();
  const auto decision = experiment::decide(asked, outcomes);
  const auto pictures = experiment::pictures_of(asked, decision);
  const fs::path folder = into / asked.name;
  trainer::files::make_directories(files, folder);
  for (const auto& picture : pictures) {
    trainer::files::write_file_atomically(files, folder / picture.file, picture.svg);
  }
  trainer::files::write_file_atomically(files, folder / "experiment.html",
                                        experiment::page_of(asked, decision, pictures));
  print(asked, decision);
  std::cout << "\nThe page: " << (folder / "experiment.html").string() << '\n';
}

void list(const Options& options) {
  Table table({"name", "verdict", "statement"});
  for (const auto& folder : experiment::experiment_folders()) {
    const auto asked = experiment::read_experiment(folder);
    const auto decision = experiment::decide(asked, recorded(asked));
    if (options.markdown) {
      std::cout << experiment::markdown_row(asked, decision) << '\n';
    } else {
      table.add({asked.name, std::string(to_text(decision.answer)), asked.title});
    }
  }
  if (!options.markdown) table.print(std::cout, Table::Align::Left);
}

void run(const Options& options) {
  if (options.record && (options.quick || !options.settings.empty())) {
    throw CLI::ValidationError("--record",
                               "records what the folder asks for, without --quick and "
                               "--set");
  }
  const auto asked = experiment_of(options);
  const fs::path into = options.into;
  const auto tuning = tuning_tasks(asked, into);
  if (options.dry_run) {
    auto tasks = tuning;  // and of arms that are not tuned what decides
    std::ranges::copy(deciding_tasks(asked, experiment::decide(asked, {}), into),
                      std::back_inserter(tasks));
    for (const auto& owner : owners_of(asked)) check_sweep_directory(into / owner);
    own_runs(asked, into);
    for (const auto& task : tasks) {
      check_cells(task.plan, {task.cell}, task.into, options.threads);
    }
    std::cout << asked.name << ": " << counted(ssize(tuning), "run") << " to tune, "
              << asked.arms.size() * asked.deciding_seeds.size() << " that "
              << (asked.quick ? "are compared" : "decide") << '\n';
    return;
  }
  std::vector<std::unique_ptr<SweepLock>> locks;
  for (const auto& owner : owners_of(asked)) {
    trainer::files::make_directories(trainer::files::FileSystem::real(), into / owner);
    locks.push_back(std::make_unique<SweepLock>(into / owner));
  }
  Outcomes outcomes = own_runs(asked, into);
  if (options.record) {
    auto own = std::move(outcomes);
    outcomes = recorded(asked);
    for (auto& [owner, list] : own) merge(outcomes[owner], std::move(list));
  }
  std::cout << asked.name << ": " << asked.question << '\n' << std::flush;
  size_t failed = run_tasks(asked, tuning, options, outcomes);
  failed += run_tasks(asked, deciding_tasks(asked, experiment::decide(asked, outcomes), into),
                      options, outcomes);
  if (options.record) record(asked, outcomes);
  report(asked, outcomes, into);
  if (failed > 0) {
    throw std::runtime_error(error_message("experiment",
                                           counted(static_cast<std::int64_t>(failed), "run"),
                                           " failed; the logs beside their directories say "
                                           "why, and the same command tries them again"));
  }
}

void show(const Options& options) {
  const auto asked = experiment_of(options);
  auto outcomes = own_runs(asked, options.into);
  if (empty(outcomes)) {
    outcomes = recorded(asked);
    std::cout << (empty(outcomes) ? "There are no runs yet.\n"
                                  : "From the results that the folder of the experiment has.\n");
  }
  report(asked, outcomes, options.into);
}

void add_common(CLI::App& command, Options& options) {
  command.add_option("name", options.name, "Name or folder of the experiment")->required();
  command.add_flag("--quick", options.quick,
                   "At most ten minutes on two cores: shows the direction and decides nothing");
  add_settings(command, options.settings);
  command.add_option("--into", options.into, "Directory of the runs; what it has is not run again")
      ->capture_default_str();
}

}  // namespace

void add_experiment_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("experiment", "Ask the paper's questions on this machine");
  command->require_subcommand(1);

  auto* listing = command->add_subcommand("list", "The experiments, and what was decided");
  listing->add_flag("--markdown", options->markdown, "As the rows of docs/experiments.md");
  listing->callback([options] { list(*options); });

  auto* running = command->add_subcommand("run", "Tune, run what decides, and say what it decides");
  add_common(*running, *options);
  running->add_option("--jobs", options->jobs, "Runs at a time; 0: cores divided by --threads")
      ->check(integer_in(0, 4096))
      ->capture_default_str();
  running->add_option("--threads", options->threads, "Threads of each run")
      ->check(integer_in(1, 4096))
      ->capture_default_str();
  running->add_flag("--dry-run", options->dry_run, "Check configurations and count the runs");
  running->add_flag("--record", options->record,
                    "Go on from the results in the experiment's folder, and put those of this "
                    "machine there");
  running->callback([options] { run(*options); });

  auto* showing = command->add_subcommand(
      "report",
      "The verdict, page and pictures, from the runs of this machine or else from the "
      "results in the experiment's folder");
  add_common(*showing, *options);
  showing->callback([options] { show(*options); });
}

}  // namespace normball::cli
