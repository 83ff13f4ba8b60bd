// `normball train`, `normball eval` and `normball sample`.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

#include "cli/commands.h"
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
                         ? printed("validation loss %.4f", evaluation.loss)
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

void train(TrainCommand command) {
  const trainer::runtime::StopSignals signals;
  leave_configuration(command);
  if (command.name) require_not_set(command.settings, "run.name", "--name " + *command.name);
  if (command.resume) require_not_set(command.settings, "run.resume", "--resume");
  if (command.overfit_batch) {
    require_not_set(command.settings, "train.overfit_batch", "--overfit-batch");
  }
  auto config = load_with_warnings(command.config, command.settings);
  if (command.name) config.run.name = *command.name;
  trainer::config::validate_name(config.run.name, command.name ? "--name" : command.config);
  if (command.resume) config.run.resume = *command.resume;
  if (command.overfit_batch) config.train.overfit_batch = true;
  trainer::runtime::use_threads(config.run.threads);
  trainer::runtime::keep_tensor_memory();
  trainer::train::Trainer trainer(config, command.options);
  if (command.options.dry_run) {
    std::cout << trainer.explain() << "\nNothing was trained or written (--dry-run).\n";
    return;
  }
  trainer::runtime::Progress progress(std::cerr, trainer::runtime::can_redraw(STDERR_FILENO));
  const auto result = trainer.run(progress);
  std::cout << (result.finished ? "finished" : "stopped") << " after step " << result.step << " of "
            << trainer.steps() << " in " << trainer::runtime::duration_text(result.seconds);
  if (result.skipped > 0) std::cout << ", " << result.skipped << " skipped as not finite";
  if (result.evaluation) std::cout << ": " << result_text(*result.evaluation);
  std::cout << "\n" << trainer.directory().string() << '\n';
  if (!result.finished) std::cout << "to continue: --resume\n";
  std::cout << std::flush;  // before a closed pipe ends the process
  if (result.verdict.diverged) {
    throw std::runtime_error(error_message("train", "the run diverged: ", result.verdict.text));
  }
  if (!result.verdict.text.empty()) std::cerr << "warning: " << result.verdict.text << '\n';
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
  command->add_option("--seed", options->seed, "Of the choices")
      ->check(integer_in(0, 1'000'000'000'000'000'000))
      ->capture_default_str();
  add_settings(*command, options->settings);
  command->footer("--set takes " + std::string(trainer::config::keys_after_training("sample")) +
                  ".");
  command->callback([options] { sample(*options); });
}

}  // namespace normball::cli
