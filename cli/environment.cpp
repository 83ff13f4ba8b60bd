#include "cli/environment.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

namespace normball::cli {
namespace {

// Names the variables that the program has set for itself, for its own later starts and children.
constexpr const char* record = "NORMBALL_ENVIRONMENT";

constexpr std::array<std::string_view, 6> computing = {"bench", "demo",   "eval",
                                                       "lab",   "sample", "train"};

bool set_in_environment(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  return value != nullptr && *value != '\0';
}

}  // namespace

Surroundings surroundings(std::string_view command) {
  cpu_set_t cores;
  const int allowed = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  return {this_processor(), blas_core(), allowed, usable_cpus(),
          std::ranges::find(computing, command) != computing.end()};
}

std::vector<Setting> wanted_settings(const Surroundings& around, const IsSet& is_set) {
  std::vector<Setting> settings;
  const auto want = [&](const char* variable, std::string value, std::string reason) {
    if (!is_set(variable)) settings.push_back({variable, std::move(value), std::move(reason)});
  };
  if (const auto type = better_core_type(around.processor, around.blas_core);
      !around.blas_core.empty() && !type.empty()) {
    want("OPENBLAS_CORETYPE", std::string(type),
         "OpenBLAS took this processor for " + around.blas_core);
  }
  if (around.usable < around.cores) {
    want("OMP_NUM_THREADS", std::to_string(around.usable),
         "the control group grants less than the " + std::to_string(around.cores) + " cores");
  }
  // GNU's OpenMP lets a thread that waits spin for milliseconds by default, which keeps the core
  // from the thread it waits for where other programs run: docs/performance.md has the
  // measurements.
  if (around.computes && around.cores > 1 && !is_set("OMP_WAIT_POLICY")) {
    want("GOMP_SPINCOUNT", "1000", "threads that wait leave their cores to others soon");
  }
  return settings;
}

void adopt_environment(char** argv, const CommandPrograms& programs) {
  const std::string_view command = argv[0] != nullptr && argv[1] != nullptr ? argv[1] : "";
  const auto settings = wanted_settings(surroundings(command), set_in_environment);
  const auto here = std::ranges::find(programs.commands_here, command);
  const bool elsewhere = !programs.other.empty() && here == programs.commands_here.end();
  if (settings.empty() && !elsewhere) return;
  std::string names = adopted_environment();
  for (const auto& [variable, value, reason] : settings) {
    ::setenv(variable.c_str(), value.c_str(), 1);
    names += (names.empty() ? "" : " ") + variable;
  }
  if (!names.empty()) ::setenv(record, names.c_str(), 1);
  if (!elsewhere) {
    ::execv("/proc/self/exe", argv);
    return;
  }
  // Debian 13's LibTorch brings UCX, which takes SIGHUP for a debug mode and keeps others from it.
  ::setenv("UCX_DEBUG_SIGNO", "0", 0);
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const auto other = self.parent_path() / programs.other;
  ::execv(other.c_str(), argv);
  std::cerr << "normball: cannot start " << other
            << ", which has the commands that use LibTorch: " << std::strerror(errno)
            << "; install it beside " << self << '\n';
  std::exit(1);
}

std::string adopted_environment() {
  const char* names = std::getenv(record);
  return names != nullptr ? names : "";
}

}  // namespace normball::cli
