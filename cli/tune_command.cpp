// `normball tune`: which lr, and which rho, by short runs of the configuration itself.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/sweep_runs.h"
#include "cli/tune_report.h"
#include "cli/tune_trials.h"
#include "normball/base/error.h"
#include "normball/base/processor.h"
#include "normball/base/text.h"
#include "trainer/config/config_method.h"
#include "trainer/config/config_use.h"
#include "trainer/files/atomic_file.h"
#include "trainer/run/resume.h"
#include "trainer/runtime/stop_signal.h"
#include "trainer/runtime/terminal.h"
#include "trainer/train/trainer.h"

namespace normball::cli {
namespace {

namespace config = trainer::config;
namespace fs = std::filesystem;
namespace sweep = trainer::sweep;

constexpr std::int64_t least_steps = 20;  // of a trial: fewer say nothing
constexpr std::int64_t default_runs = 4;  // whole runs that a search may cost

struct TuneOptions {
  std::string base, into, metric, budget;
  std::vector<std::string> settings;
  std::vector<std::int64_t> seeds;
  int jobs = 0, threads = 1;
  bool dry_run = false;
};

// What the search is for, and how long it may be.
struct Search {
  config::Config config;  // as it is to be trained afterwards
  std::vector<std::string> settings;
  TuningOptions tuning;
  std::vector<std::int64_t> seeds;
  sweep::Metric metric;
  std::int64_t run_steps = 0, trial_steps = 0, budget = 0;
};

void refuse_own_keys(const std::vector<std::string>& settings) {
  static const OwnKeys keys = {{"run.seed", "; use --seeds"},
                               {"run.dir", "; use --into"},
                               {"run.name", ""},
                               {"run.resume", "; the same command always continues"},
                               {"run.threads", "; use --threads"},
                               {"run.log_every", ""},
                               {"run.eval_every", ""},
                               {"run.checkpoint_every", ""}};
  refuse_keys("--set", settings, "the search", keys);
}

const config::Key& key_of(std::string_view name) {
  return *std::ranges::find(config::config_keys(), name, &config::Key::full_name);
}

// A configuration of a method that needs rho may leave it to the search.
config::Config load(const TuneOptions& options, bool& without_rho) {
  try {
    return load_with_warnings(options.base, options.settings);
  } catch (const std::invalid_argument&) {
    auto settings = options.settings;
    settings.emplace_back("optimizer.rho=1");
    config::Config config;
    try {
      config = config::load_config(options.base, settings);
      without_rho = true;
    } catch (const std::invalid_argument&) {
      without_rho = false;  // something else is wrong
    }
    if (!without_rho) throw;
    return config;
  }
}

TuningOptions tuning_options(const config::Config& config, bool without_rho) {
  const auto& optimizer = config.optimizer;
  if (const auto reason = config::why_unused(key_of("optimizer.lr"), config); !reason.empty()) {
    throw CLI::ValidationError("tune", "there is no lr to tune: " + reason);
  }
  if (optimizer.lr == 0) {
    throw CLI::ValidationError("tune", "the search begins at optimizer.lr, which is 0");
  }
  TuningOptions tuning{.lr = optimizer.lr};
  tuning.highest_lr = key_of("optimizer.lr").range.high;
  const std::string rho = config::value_text(key_of("optimizer.rho"), config);
  const bool automatic = rho.find("auto") != std::string::npos;  // finds itself
  tuning.tune_rho = config::has_effect("optimizer.rho", config) && !automatic;
  if (tuning.tune_rho && !without_rho) tuning.rho = parse_number("tune", "optimizer.rho", rho);
  if (config::is_core_method(optimizer.method) && config::core_method(config, 1000).constrained) {
    tuning.highest_lr = 1;  // no step leaves the ball
  }
  if (config.schedule.kind == "cosine") tuning.lowest_lr = config.schedule.end;
  return tuning;
}

// Steps of the whole run, after reading data and building the model, so that what is wrong with
// them is said before the first trial.
std::int64_t steps_of(config::Config config, const fs::path& into) {
  const trainer::runtime::StopSignals signals;  // before LibTorch's threads
  config.run.dir = into.string();
  config.run.name = "whole-run";
  return trainer::train::Trainer(config, {.dry_run = true}).steps();
}

// "2.5x", of the steps of a run, or a number of steps.
std::int64_t parse_budget(const std::string& text, std::int64_t run_steps) {
  const bool runs = text.ends_with('x');
  const auto wrong = [&] {
    return CLI::ValidationError("--budget",
                                "must be a number of steps such as 2000, or of whole runs such as "
                                "4x or 0.5x, got " +
                                    text);
  };
  double number = 0;
  try {
    number = parse_number("tune", "budget", runs ? text.substr(0, text.size() - 1) : text);
  } catch (const std::invalid_argument&) {
    throw wrong();
  }
  const double steps = runs ? number * static_cast<double>(run_steps) : number;
  if (!(steps >= 1 && steps <= 1e15) || (!runs && std::floor(number) != number)) throw wrong();
  return static_cast<std::int64_t>(steps);
}

Search search_of(const TuneOptions& options, const fs::path& into) {
  refuse_own_keys(options.settings);
  Search search;
  bool without_rho = false;
  search.config = named_by_user([&] { return load(options, without_rho); });
  search.tuning = tuning_options(search.config, without_rho);
  search.seeds = options.seeds;
  const std::int64_t seed = search.config.run.seed;
  if (search.seeds.empty()) search.seeds = {seed, seed + 1, seed + 2};
  auto distinct = search.seeds;
  std::ranges::sort(distinct);
  if (std::ranges::adjacent_find(distinct) != distinct.end()) {
    throw CLI::ValidationError("--seeds", "a seed is given twice");
  }
  search.tuning.repeats = static_cast<int>(search.seeds.size());
  named_by_user([&] { validate(search.tuning); });
  const bool averages = search.config.train.average != "none";
  const std::string metric = !options.metric.empty() ? options.metric
                             : averages              ? "val_loss"
                                                     : "loss tail";
  search.metric = named_by_user([&] {
    sweep::check_metric(metric);
    return sweep::metric_of(metric, {});
  });
  if (const auto judges =
          std::to_array<std::string_view>({"loss", "val_loss", "val_accuracy", "iterate_val_loss",
                                           "iterate_val_accuracy", "full_loss"});
      std::ranges::find(judges, search.metric.curve) == judges.end()) {
    throw CLI::ValidationError(
        "--metric",
        "'" + metric + "' says nothing of how good a run is; a loss or an accuracy does");
  }
  require_recorded(metric, search.config);

  search.run_steps = steps_of(search.config, into);
  const int most = most_trials(search.tuning);
  const std::int64_t least = std::min(least_steps, search.run_steps);
  search.budget = options.budget.empty() ? std::max(default_runs * search.run_steps, least * most)
                                         : parse_budget(options.budget, search.run_steps);
  search.trial_steps = std::min(search.run_steps, search.budget / most);
  if (search.trial_steps < least) {
    throw CLI::ValidationError("--budget",
                               "allows " + counted(search.budget, "step") + ", " +
                                   std::to_string(search.trial_steps) + " for each of up to " +
                                   counted(most, "run") + ", which say nothing: give " +
                                   std::to_string(least * most) + " or more, or fewer --seeds");
  }
  search.settings = options.settings;
  for (const std::string& setting :
       {"run.steps=" + std::to_string(search.trial_steps), std::string("run.epochs=0"),
        std::string("run.log_every=1"), std::string("run.eval_every=0"),
        std::string("run.checkpoint_every=0")}) {
    const std::string key = setting.substr(0, setting.find('='));
    std::erase_if(search.settings, [&](const auto& given) { return given.starts_with(key + "="); });
    search.settings.push_back(setting);
  }
  if (config::has_effect("sample.every", search.config)) {
    search.settings.emplace_back("sample.every=0");
  }
  std::erase_if(search.settings, [](const auto& given) {
    return given.starts_with("optimizer.lr=") || given.starts_with("optimizer.rho=");
  });
  return search;
}

void write(const fs::path& file, const std::string& text) {
  trainer::files::write_file_atomically(trainer::files::FileSystem::real(), file, text);
}

std::string spent_text(const Search& search, const std::vector<sweep::Result>& results) {
  std::int64_t steps = 0;
  for (const auto& result : results) steps += result.steps;
  return "spent: " + counted(ssize(results), "run") + " of at most " +
         counted(search.trial_steps, "step") + ", " + counted(steps, "step") + " in all" +
         printed(", %.3g times a run of %lld; allowed were %lld",
                 static_cast<double>(steps) / static_cast<double>(search.run_steps),
                 static_cast<long long>(search.run_steps), static_cast<long long>(search.budget));
}

std::string length_text(const Search& search) {
  if (search.trial_steps == search.run_steps) return "";
  const bool decays =
      search.config.schedule.kind != "constant" || search.config.schedule.warmup > 0;
  return "this is the best for runs of " + counted(search.trial_steps, "step") +
         (decays ? ", each with the whole schedule" : "") +
         "; nothing was computed about those of " + std::to_string(search.run_steps) +
         ", whose best lr may be smaller: try half of it and a quarter too";
}

// What can be trained, or extended, from every folder: the whole configuration with the values
// found, and a name of its own.
std::string result_toml(const Search& search, const TuningResult& result,
                        const std::vector<std::string>& remarks) {
  auto found = trainer::run::as_recorded(search.config, search.config.run.resume);
  found.run.name += "-tuned";
  config::apply_setting(found, "optimizer.lr=" + number_text(result.best.lr));
  if (result.best.rho) {
    config::apply_setting(found, "optimizer.rho=" + number_text(*result.best.rho));
  }
  std::string text =
      "# Found by normball tune: " + to_string(result.best) + ", " + search.metric.text() + ".\n";
  for (const auto& remark : remarks) text += "# - " + remark + "\n";
  return text + config::to_toml(found);
}

void report(const Search& search, const TuningResult& result, const Trials& trials,
            const fs::path& into) {
  auto remarks = result.remarks;
  for (const auto& more : {length_text(search), spent_text(search, trials.used())}) {
    if (!more.empty()) remarks.push_back(more);
  }
  tuning_table(result, search.metric).print(std::cout);
  std::cout << '\n';
  const int columns = std::clamp(trainer::runtime::output_columns() - 16, 20, 84);
  std::string files;
  const auto draw = [&](const plot::Figure& figure, const char* name) {
    if (figure.curves.empty()) {
      fs::remove(into / name);  // of another search
      return;
    }
    std::cout << plot::to_terminal(figure, columns, 12, trainer::runtime::shows_colors()) << '\n';
    write(into / name, plot::to_svg(figure));
    files += ", " + (into / name).string();
  };
  draw(lr_figure(result, search.metric), "lr.svg");
  draw(rho_figure(result, search.metric), "rho.svg");
  write(into / "results.csv", sweep::to_csv(trials.plan(), trials.used()));
  write(into / "result.toml", result_toml(search, result, remarks));
  for (const auto& remark : remarks) std::cout << "- " << remark << '\n';
  std::cout << '\n'
            << settings_text(result.best)
            << "\n\nThe same as a configuration: " << (into / "result.toml").string() << files
            << '\n';
}

// The search until it would run something.
void check_first_trials(const TuningOptions& options, const Trials& trials) {
  struct Checked {};
  try {
    tune(options,
         [&](TuningStage, std::span<const TuningTrial> first) -> std::vector<TuningOutcome> {
           trials.check(first);
           throw Checked();
         });
  } catch (const Checked&) {
  }
}

void tune_configuration(const TuneOptions& options) {
  const std::string name = fs::path(options.base).stem().string() + "-tune";
  const fs::path into = options.into.empty() ? fs::path("runs") / name : fs::path(options.into);
  if (fs::exists(into / "config.toml")) {
    throw std::runtime_error(error_message("tune", into.string(),
                                           " is the directory of a run; name another with --into"));
  }
  if (fs::exists(into) && !fs::is_directory(into)) {
    throw std::runtime_error(
        error_message("tune", into.string(), " is no directory; name another with --into"));
  }
  const Search search = search_of(options, into);
  const int most = most_trials(search.tuning);
  const int jobs = options.jobs > 0 ? options.jobs : std::max(1, usable_cpus() / options.threads);
  std::cout << options.base << ": lr" << (search.tuning.tune_rho ? " and rho" : "")
            << " by at most " << counted(most, "run") << " of "
            << counted(search.trial_steps, "step") << ", "
            << printed("%.3g", static_cast<double>(most * search.trial_steps) /
                                   static_cast<double>(search.run_steps))
            << " times a run of " << search.run_steps << ", judged by " << search.metric.text()
            << '\n'
            << std::flush;
  const TrialSettings settings{.base = options.base,
                               .settings = search.settings,
                               .seeds = search.seeds,
                               .metric = search.metric,
                               .into = into,
                               .jobs = jobs,
                               .threads = options.threads,
                               .most = most};
  if (options.dry_run) {
    check_sweep_directory(into);
    check_first_trials(search.tuning, Trials(settings));
    std::cout << "Nothing was trained or written (--dry-run).\n";
    return;
  }
  trainer::files::make_directories(trainer::files::FileSystem::real(), into);
  const SweepLock lock(into);
  Trials trials(settings);
  const auto result =
      tune(search.tuning, [&](TuningStage stage, std::span<const TuningTrial> next) {
        return trials.run(stage, next);
      });
  report(search, result, trials, into);
}

}  // namespace

void add_tune_command(CLI::App& app) {
  auto options = std::make_shared<TuneOptions>();
  auto* command = app.add_subcommand(
      "tune", "Which lr and rho: a short search by short runs, with its curve and its cost");
  command
      ->add_option(
          "config", options->base,
          "A preset (`normball config --list`) or a TOML file; the search begins at its lr "
          "and rho")
      ->required();
  add_settings(*command, options->settings);
  command->add_option(
      "--budget", options->budget,
      "All steps of all runs together, at most: a number, or 2.5x for that many whole "
      "runs; default: 4x, or more where a run would have fewer than 20 steps");
  command
      ->add_option("--seeds", options->seeds,
                   "The first one searches; the best and its neighbours are run with all of them; "
                   "default: run.seed and the next two")
      ->check(integer_in(0, INT32_MAX));
  command->add_option("--metric", options->metric,
                      "What runs are judged by: a curve (loss, val_loss, val_accuracy), with last, "
                      "tail or best after a space; default: loss tail, the mean training loss over "
                      "the last quarter (with train.average: val_loss)");
  command->add_option("--into", options->into,
                      "Directory of the runs and results; those already there are not run again; "
                      "default: runs/CONFIG-tune");
  command->add_option("--jobs", options->jobs, "Runs at a time; 0: cores divided by --threads")
      ->check(integer_in(0, 4096))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads of each run")
      ->check(integer_in(1, 4096))
      ->capture_default_str();
  command->add_flag(
      "--dry-run", options->dry_run,
      "Read the data, build the model, say what the search would cost; start nothing");
  command->callback([options] { tune_configuration(*options); });
}

}  // namespace normball::cli
