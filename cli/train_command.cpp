// `normball train`, `normball eval` and `normball sample`.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/options.h"
#include "normball/base/error.h"
#include "normball/base/text.h"
#include "trainer/config/config_use.h"
#include "trainer/runtime/stop_signal.h"
#include "trainer/runtime/tensor_memory.h"
#include "trainer/runtime/terminal.h"
#include "trainer/runtime/threads.h"
#include "trainer/train/sample.h"
#include "trainer/train/stored_run.h"
#include "trainer/train/trainer.h"

namespace normball::cli {
namespace {

struct TrainCommand {
  std::string config;
  std::vector<std::string> settings = {};
  std::optional<std::string> name = {};
  std::optional<std::string> resume = {};
  bool overfit_batch = false;
  trainer::train::TrainingOptions options = {};
};

struct StoredCommand {
  std::string path;
  std::vector<std::string> settings = {};
  std::vector<std::string> flags = {};  // settings that have an option of their own
  std::optional<std::string> prompt = {};
  std::int64_t seed = 0;
};

std::string result_text(const trainer::train::Evaluation& evaluation) {
  std::string text = std::isfinite(evaluation.loss)
                         ? "validation loss " + trainer::runtime::loss_text(evaluation.loss)
                         : std::string("validation loss not finite");
  if (evaluation.accuracy) text += printed(", accuracy %.2f %%", 100 * *evaluation.accuracy);
  return text;
}

// `--resume CONFIG`: the option takes a value only where it is one, and leaves the configuration.
void leave_configuration(TrainCommand& command) {
  if (command.resume == "") throw CLI::ValidationError("--resume", "must not be empty");
  if (command.config.empty() && command.resume && command.resume != "auto" &&
      !std::filesystem::is_directory(*command.resume)) {
    command.config = *std::exchange(command.resume, "auto");
  }
  if (command.config.empty()) throw CLI::RequiredError("config");
}

// A rank's part of the cores, where neither the configuration nor the user says it.
std::int64_t threads_of(const trainer::config::Config& config, const trainer::train::Team& team) {
  if (team.alone() || config.run.threads > 0) return config.run.threads;
  const std::string adopted = adopted_environment();
  const bool by_user = std::getenv("OMP_NUM_THREADS") != nullptr &&
                       adopted.find("OMP_NUM_THREADS") == std::string::npos;
  return by_user ? 0 : trainer::train::threads_in(team.place());
}

void train_in(const std::shared_ptr<trainer::train::Team>& team, TrainCommand command) {
  command.options.team = team;
  leave_configuration(command);
  if (command.name) require_not_set(command.settings, "run.name", "--name " + *command.name);
  if (command.resume) require_not_set(command.settings, "run.resume", "--resume");
  if (command.overfit_batch) {
    require_not_set(command.settings, "train.overfit_batch", "--overfit-batch");
  }
  auto config = team->leads() ? load_with_warnings(command.config, command.settings)
                              : trainer::config::load_config(command.config, command.settings);
  if (command.name) config.run.name = *command.name;
  trainer::config::validate_name(config.run.name, command.name ? "--name" : command.config);
  if (command.resume) config.run.resume = *command.resume;
  if (command.overfit_batch) config.train.overfit_batch = true;
  trainer::runtime::use_threads(threads_of(config, *team));
  trainer::runtime::keep_tensor_memory();
  trainer::train::Trainer trainer(config, command.options);
  std::ostream nowhere(nullptr);
  std::ostream& out = team->leads() ? std::cout : nowhere;
  if (command.options.dry_run) {
    out << trainer.explain() << "\nNothing was trained or written (--dry-run).\n";
    return;
  }
  trainer::runtime::Progress progress(team->leads() ? std::cerr : nowhere,
                                      team->leads() && trainer::runtime::can_redraw(STDERR_FILENO));
  const auto result = trainer.run(progress);
  if (result.was_finished) out << "nothing is left to do: the run ";
  out << (result.finished ? "finished" : "stopped") << " after step " << result.step << " of "
      << trainer.steps() << " in " << trainer::runtime::duration_text(result.seconds);
  if (!team->alone()) out << " on " << team->size() << " ranks";
  if (result.skipped > 0) out << ", " << result.skipped << " skipped as not finite";
  if (result.evaluation) out << ": " << result_text(*result.evaluation);
  out << "\n" << trainer.directory().string() << '\n';
  if (!result.finished) out << "to continue: --resume\n";
  out << std::flush;  // before a closed pipe ends the process
  if (result.verdict.diverged) {
    throw std::runtime_error(error_message("train", "the run diverged: ", result.verdict.text));
  }
  if (!result.verdict.text.empty() && team->leads()) {
    std::cerr << "warning: " << result.verdict.text << '\n';
  }
}

// What ends one of several ranks is told to the others, but for what another one told.
void train(TrainCommand command) {
  const trainer::runtime::StopSignals signals;
  const auto team = trainer::train::Team::find();
  try {
    train_in(team, std::move(command));
  } catch (const ranks::RanksError&) {
    throw;
  } catch (const std::exception& error) {
    team->fail(error.what());
    throw;
  }
}

void evaluate(const StoredCommand& command) {
  const auto stored = trainer::train::open_run(command.path, command.settings);
  if (stored.data->evaluation_batches() == 0) {
    throw_invalid("eval", "the data has no validation part; see data.validation");
  }
  if (!stored.same_validation_data) {
    std::cerr
        << "note: the validation data has changed since the run; results cannot be compared\n";
  }
  const auto evaluation = trainer::train::evaluate(*stored.model, *stored.data);
  std::cout << "step " << stored.step << ", " << evaluation.targets << ' '
            << stored.data->facts().unit << ": " << result_text(evaluation) << '\n';
  for (const auto& remark : stored.data->remarks()) {
    std::cerr << trainer::runtime::one_line(remark) << '\n';
  }
}

void sample(const StoredCommand& command) {
  auto settings = command.settings;
  for (const auto& flag : command.flags) {
    const std::string key = flag.substr(0, flag.find('='));
    std::string option = "--" + key.substr(key.find('.') + 1) + " " + flag.substr(key.size() + 1);
    std::ranges::replace(option, '_', '-');
    require_not_set(command.settings, key, option);
  }
  if (command.prompt) require_not_set(command.settings, "sample.prompt", "--prompt");
  settings.insert(settings.end(), command.flags.begin(), command.flags.end());
  const auto stored = trainer::train::open_writer(command.path, settings);
  trainer::config::SampleConfig options = stored.config.sample;
  if (command.prompt) options.prompt = *command.prompt;
  // A file gets the bytes as they are; a terminal must not be controlled by them.
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  trainer::runtime::PrintablePieces pieces;
  trainer::train::generate_text(*stored.gpt, stored.tokenizer, options,
                                static_cast<std::uint64_t>(command.seed),
                                [&](std::string_view piece) {
                                  if (terminal) {
                                    std::cout << pieces.add(piece) << std::flush;
                                  } else {
                                    std::cout << piece << std::flush;
                                  }
                                });
  std::cout << pieces.finish() << '\n';
}

// A short name for --set sample.NAME=...
void add_sample_option(CLI::App& command, StoredCommand& options, const std::string& flag,
                       const std::string& key, const std::string& help) {
  command
      .add_option_function<std::string>(
          flag,
          [&options, flag, key](const std::string& value) {
            options.flags.push_back("sample." + key + "=" + value);
            trainer::config::Config any;
            trainer::config::apply_setting(any, options.flags.back(),
                                           flag + ' ' + value);  // is it right?
          },
          help + "; default: sample." + key + " of the run")
      ->type_name("NUMBER");
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto options = std::make_shared<TrainCommand>();
  auto* train_app = app.add_subcommand("train", "Train a model as a configuration says");
  train_app->add_option("config", options->config,
                        "A preset (`normball config --list`) or a TOML file; required");
  add_settings(*train_app, options->settings);
  train_app->add_option("--name", options->name,
                        "Name of the run directory; default: run.name, or the preset's");
  train_app
      ->add_option("--resume", options->resume,
                   "Resume: auto (the newest valid checkpoint, if any), or a checkpoint or run")
      ->expected(0, 1)
      ->default_str("auto")
      ->type_name("DIR");
  train_app->add_flag("--dry-run", options->options.dry_run,
                      "Read the data, build everything, show what would be done; write nothing");
  train_app->add_flag("--overfit-batch", options->overfit_batch,
                      "Train on the first batch only: its loss must go to zero; sets "
                      "train.overfit_batch");
  train_app
      ->add_option("--stop-after", options->options.stop_after,
                   "Save and stop after this many steps; --resume continues")
      ->check(integer_in(1, 1'000'000'000'000));
  train_app
      ->add_option("--stop-at", options->options.stop_at,
                   "The same after this step of the run, whatever was trained before")
      ->check(integer_in(1, 1'000'000'000'000));
  train_app->callback([options] { train(*options); });
}

void add_eval_command(CLI::App& app) {
  auto options = std::make_shared<StoredCommand>();
  auto* eval = app.add_subcommand("eval", "Validation loss and accuracy of a trained model");
  eval->add_option("run", options->path, "A run directory (its best checkpoint) or a checkpoint")
      ->required();
  add_settings(*eval, options->settings);
  eval->footer("--set takes " + std::string(trainer::config::keys_after_training("eval")) + ".");
  eval->callback([options] { evaluate(*options); });
}

void add_sample_command(CLI::App& app) {
  auto options = std::make_shared<StoredCommand>();
  auto* command = app.add_subcommand("sample", "Text from a trained language model");
  command->add_option("run", options->path, "A run directory (its best checkpoint) or a checkpoint")
      ->required();
  command
      ->add_option("--prompt", options->prompt,
                   "The text to continue; default: sample.prompt of the run")
      ->type_name("WORDS");  // which may be none

  add_sample_option(*command, *options, "--length", "length", "Tokens to add");
  add_sample_option(*command, *options, "--temperature", "temperature",
                    "0: always the likeliest token");
  add_sample_option(*command, *options, "--top-k", "top_k", "Among this many tokens; 0: all");
  command->add_option("--seed", options->seed, "Random seed")
      ->check(integer_in(0, 1'000'000'000'000'000'000))
      ->capture_default_str();
  add_settings(*command, options->settings);
  command->footer("--set takes " + std::string(trainer::config::keys_after_training("sample")) +
                  ".");
  command->callback([options] { sample(*options); });
}

}  // namespace normball::cli
