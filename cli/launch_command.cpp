// `normball launch`: local ranks that train together, without LibTorch in this process.
#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/local_ranks.h"
#include "cli/options.h"
#include "normball/base/error.h"
#include "normball/base/processor.h"
#include "trainer/runtime/terminal.h"

namespace normball::cli {
namespace {

struct LaunchCommand {
  int ranks = 2;
  int restarts = 0;
  std::int64_t timeout = 60;
  int port = 0;
};

void require_c10d() {
#ifndef NORMBALL_C10D
  throw std::runtime_error(
      error_message("launch",
#ifdef NORMBALL_TRAINER
                    "this program was built without c10d: the headers of LibTorch's "
                    "ProcessGroupGloo or of Gloo (Debian: libgloo-dev) were not found. Install them"
#else
                    "this program was built without LibTorch, so it trains nothing. Install "
                    "LibTorch"
#endif
                    " and build it again"));
#endif
}

bool resumes(const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [](const std::string& word) {
    return word == "--resume" || word.starts_with("--resume=");
  });
}

// The word after "--resume", where it is no option and not "auto": another checkpoint or run.
void refuse_other_checkpoints(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    std::string value;
    if (words[i].starts_with("--resume=")) value = words[i].substr(9);
    if (words[i] == "--resume" && i + 1 < words.size() && !words[i + 1].starts_with('-')) {
      value = words[i + 1];
    }
    if (value.empty() || value == "auto") continue;
    throw CLI::ValidationError(
        "--restarts", "goes on from the run's own checkpoints, but --resume names " + value +
                          "; leave one of them out");
  }
}

// Ends as the ranks did that were stopped before their first step.
[[noreturn]] void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  std::exit(128 + signal);
}

void launch(const LaunchCommand& command, std::vector<std::string> words) {
  if (words.empty() || words.front() != "train") {
    throw CLI::ValidationError("launch starts `train`: normball launch -n " +
                               std::to_string(command.ranks) + " train CONFIG" +
                               (words.empty() ? "" : "; got '" + words.front() + "'"));
  }
  require_c10d();
  if (command.restarts > 0) refuse_other_checkpoints(words);
  LocalRanks ranks{.command = std::move(words),
                   .count = command.ranks,
                   .threads = std::max(1, usable_cpus() / command.ranks),
                   .port = command.port,
                   .timeout = std::chrono::seconds(command.timeout)};
  for (int restart = 1;; ++restart) {
    const RanksEnd end = run_local_ranks(ranks);
    if (end.failure.empty()) return;
    if (end.signal != 0) end_by(end.signal);
    const bool misuse = end.code == 2, again = restart <= command.restarts && !misuse;
    if (!misuse) std::cerr << "normball: " << end.failure << '\n';
    if (again && end.checkpoint.empty()) {
      std::cerr << "normball: not started again: no checkpoint was written since the start, so it "
                   "would fail in the same way\n";
    }
    if (!again || end.checkpoint.empty()) throw CLI::RuntimeError(end.code);
    std::cerr << "normball: going on from " << trainer::runtime::one_line(end.checkpoint)
              << ", restart " << restart << " of " << command.restarts << '\n';
    if (!resumes(ranks.command)) ranks.command.emplace_back("--resume=auto");
  }
}

}  // namespace

void add_launch_command(CLI::App& app) {
  auto options = std::make_shared<LaunchCommand>();
  auto* command = app.add_subcommand(
      "launch", "Train on several processes of this machine: launch -n 4 train CONFIG ...");
  command->add_option("-n,--ranks", options->ranks, "How many processes; they share the cores")
      ->check(integer_in(1, 4096))
      ->capture_default_str();
  command
      ->add_option("--restarts", options->restarts,
                   "Continue from the last checkpoint after a failure, at most this many times, as "
                   "long as new checkpoints are written")
      ->check(integer_in(0, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--timeout", options->timeout,
                   "Seconds that a rank waits for another before it gives up")
      ->check(integer_in(1, 86'400))
      ->capture_default_str();
  command
      ->add_option("--port", options->port,
                   "Meet at this port, which LibTorch opens on all network interfaces; default: at "
                   "a temporary file, with no port")
      ->check(integer_in(1, 65535));
  command->prefix_command();
  command->footer(
      "What follows `train` goes to every rank. Under torchrun --no_python, mpirun and srun, run "
      "`normball train` directly: docs/distributed.md.");
  command->callback([options, command] { launch(*options, command->remaining()); });
}

}  // namespace normball::cli
