// The command line `normball`.
#include <exception>
#include <iostream>

#include "cli/commands.h"
#include "normball/normball.h"

int main(int argc, char** argv) {
  CLI::App app{"Optimizers that step on norm balls"};
  app.set_version_flag("--version", normball_version());
  app.require_subcommand(1);
  normball::cli::add_bench_command(app);
  normball::cli::add_lab_command(app);
  try {
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
