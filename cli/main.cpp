// The command line `normball`.
#include <algorithm>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "normball/normball.h"
#include "normball/text.h"

namespace {

// CLI11 only says that a subcommand is required; a typo deserves the nearest one.
void check_command(const CLI::App& app, std::string_view given) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (given.starts_with('-') || std::ranges::find(known, given) != known.end()) return;
  throw CLI::ValidationError(normball::unknown_name("command", given, known));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Optimizers that step on norm balls"};
  app.set_version_flag("--version", normball_version());
  app.require_subcommand(1);
  normball::cli::add_bench_command(app);
  normball::cli::add_config_command(app);
  normball::cli::add_data_command(app);
  normball::cli::add_lab_command(app);
  normball::cli::add_report_command(app);
#ifdef NORMBALL_TRAINER
  normball::cli::add_bench_train_command(*app.get_subcommand("bench"));
  normball::cli::add_train_command(app);
  normball::cli::add_eval_command(app);
  normball::cli::add_sample_command(app);
#endif
  try {
    if (argc > 1) check_command(app, argv[1]);
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& error) {  // a command that ran and found its answer to be no
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::cerr << "normball: " << error.what() << '\n';
    return 1;
  }
}
