// The command line `normball`.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/help.h"
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

// A file opened later must not take the place of a stream that the parent process had closed: what
// is printed would end up in it. Writing to this standard output fails.
void open_closed_streams() {
  constexpr int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", modes[stream]);
  }
}

int run_command(int argc, char** argv) {
  CLI::App app{"Optimizers that step on norm balls"};
  app.set_version_flag("--version", normball_version());
  app.require_subcommand(1);
  app.formatter(std::make_shared<normball::cli::HelpFormatter>());  // of the subcommands too
  normball::cli::add_bench_command(app);
  normball::cli::add_config_command(app);
  normball::cli::add_data_command(app);
  normball::cli::add_doctor_command(app);
  normball::cli::add_lab_command(app);
  normball::cli::add_report_command(app);
#ifdef NORMBALL_TRAINER
  normball::cli::add_bench_train_command(*app.get_subcommand("bench"));
  normball::cli::add_demo_command(app);
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
  } catch (const std::ios_base::failure&) {  // of std::cout: no other stream throws
    throw;
  } catch (const std::exception& error) {
    std::cerr << "normball: " << error.what() << '\n';
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  normball::cli::adopt_environment(argv);
  open_closed_streams();
  std::cout.exceptions(std::ios::badbit);
  try {
    const int code = run_command(argc, argv);
    std::cout.flush();
    return code;
  } catch (const std::ios_base::failure&) {
    const int error = errno;
    std::cout.exceptions(std::ios::goodbit);  // it is flushed once more at the end
    std::cerr << "normball: standard output cannot be written: " << std::strerror(error) << '\n';
    return 1;
  }
}
