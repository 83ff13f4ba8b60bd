// The command line `normball`, in two programs where there is LibTorch: `normball` has the commands
// that do without it, `normball-torch` has all.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <memory>

#include "cli/bench_ranks.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/doctor_head.h"
#include "cli/environment.h"
#include "cli/help.h"
#include "normball/normball_c.h"

namespace {

// A file opened later must not take the place of a stream that the parent process had closed: what
// is printed would end up in it. Writing to this standard output fails.
void open_closed_streams() {
  constexpr int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", modes[stream]);
  }
}

#ifdef NORMBALL_WITH_LIBTORCH
const normball::cli::CommandPrograms programs{};
const normball::cli::FurtherFindings libraries = normball::cli::add_training_libraries;
#else
constexpr std::string_view light[] = {"--version", "config", "data",   "demo", "experiment",
                                      "lab",       "launch", "report", "sweep"};
const normball::cli::CommandPrograms programs{light, NORMBALL_OTHER_PROGRAM};
const normball::cli::FurtherFindings libraries = {};
#endif

int run_command(int argc, char** argv) {
  CLI::App app{"Optimizers that step on norm balls"};
  app.set_version_flag("--version", normball_version());
  app.require_subcommand(1);
  app.formatter(std::make_shared<normball::cli::HelpFormatter>());  // of the subcommands too
  normball::cli::add_bench_command(app);
  normball::cli::add_config_command(app);
  normball::cli::add_data_command(app);
  normball::cli::add_doctor_command(app, libraries);
  normball::cli::add_lab_command(app);
  normball::cli::add_launch_command(app);
  normball::cli::add_report_command(app);
#ifdef NORMBALL_TRAINER
  normball::cli::add_demo_command(app);
  normball::cli::add_experiment_command(app);
  normball::cli::add_sweep_command(app);
#endif
#ifdef NORMBALL_WITH_LIBTORCH
  normball::cli::add_bench_ranks_command(*app.get_subcommand("bench"));
  normball::cli::add_bench_train_command(*app.get_subcommand("bench"));
  normball::cli::add_train_command(app);
  normball::cli::add_eval_command(app);
  normball::cli::add_sample_command(app);
  normball::cli::add_tune_command(app);
#endif
  normball::cli::refuse_empty_texts(app);
  return normball::cli::run_command_line(app, argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  normball::cli::adopt_environment(argv, programs);
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
