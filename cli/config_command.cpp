// `normball config`: presets, what a configuration resolves to, and the keys there are.
#include <unistd.h>

#include <iostream>
#include <memory>
#include <stdexcept>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/table.h"
#include "trainer/config/config.h"
#include "trainer/config/config_keys.h"
#include "trainer/config/config_use.h"
#include "trainer/config/presets.h"
#include "trainer/runtime/terminal.h"

namespace normball::cli {
namespace {

struct Options {
  bool list = false;
  bool keys = false;
  bool markdown = false;
  std::string show;
  std::string check;
  std::vector<std::string> settings;
};

// Of the terminal, or what a page or a file can be read in.
int columns() {
  constexpr int elsewhere = 100;
  return ::isatty(STDOUT_FILENO) != 0 ? trainer::runtime::output_columns() : elsewhere;
}

void list_presets() {
  if (trainer::config::presets().empty()) {
    throw std::runtime_error(
        "[config] no presets are installed; NORMBALL_CONFIGS can name a directory with them");
  }
  Table table({"preset", "what it is"});
  for (const auto& preset : trainer::config::presets()) table.add({preset.name, preset.summary});
  table.print_within(std::cout, columns(), Table::Align::Left);
}

void list_keys() {
  const trainer::config::Config defaults;
  Table table({"key", "type", "default", "allowed", "used by", "meaning"});
  for (const auto& key : trainer::config::config_keys()) {
    // The list of methods would make the table too wide.
    const std::string allowed = key.choices.size() > 6 ? "see --markdown" : key.allowed();
    const std::string use = trainer::config::use_of(key).text();
    table.add({key.full_name(), key.type(), trainer::config::value_text(key, defaults), allowed,
               use.size() > 60 ? "see --markdown" : use, std::string(key.help)});
  }
  table.print_within(std::cout, columns(), Table::Align::Left);
}

// What would be ignored is an error.
void require_one_task(const Options& options) {
  const bool of_one = !options.show.empty() || !options.check.empty();
  const int tasks = options.list + options.keys + !options.show.empty() + !options.check.empty();
  if (tasks > 1) {
    throw CLI::ValidationError("--list, --keys, --show and --check exclude each other");
  }
  if (options.markdown && !options.keys) throw CLI::ValidationError("--markdown needs --keys");
  if (!options.settings.empty() && !of_one) {
    throw CLI::ValidationError("--set needs --show or --check");
  }
  if (tasks == 0) {
    throw CLI::ValidationError("one of --list, --keys, --show and --check is required");
  }
}

void run_config(const Options& options) {
  require_one_task(options);
  if (options.list) return list_presets();
  if (options.keys && options.markdown) {
    std::cout << trainer::config::keys_as_markdown();
  } else if (options.keys) {
    list_keys();
  } else if (!options.show.empty()) {
    std::cout << trainer::config::to_toml(load_with_warnings(options.show, options.settings));
  } else {
    load_with_warnings(options.check, options.settings);
    std::cout << options.check
              << ": valid (the data was not read; `normball train --dry-run` reads it)\n";
  }
}

}  // namespace

void add_config_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* config = app.add_subcommand("config", "Presets, configurations and their keys");
  config->add_flag("--list", options->list, "List the presets");
  config->add_flag("--keys", options->keys, "List all keys: type, default, what is allowed");
  config->add_flag("--markdown", options->markdown, "With --keys: as docs/configuration.md");
  config->add_option("--show", options->show,
                     "A preset or file: print the whole configuration it resolves to");
  config->add_option("--check", options->check,
                     "A preset or file: check it; exit code 1 if it is wrong");
  add_settings(*config, options->settings);
  config->callback([options] { run_config(*options); });
}

}  // namespace normball::cli
