#include "cli/sweep_runs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "cli/table.h"
#include "normball/base/error.h"
#include "trainer/config/config.h"
#include "trainer/config/kinds.h"
#include "trainer/files/file_system.h"
#include "trainer/run/checkpoint.h"
#include "trainer/run/resume.h"
#include "trainer/sweep/results.h"

namespace normball::cli {
namespace fs = std::filesystem;
namespace {

using trainer::sweep::Cell;

int open_file(const fs::path& path, int flags) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | flags, 0644);
  if (file < 0) {
    throw std::runtime_error(error_message("sweep", path.string(), ": ", std::strerror(errno)));
  }
  return file;
}

std::runtime_error used_by_another(const fs::path& directory) {
  return std::runtime_error(
      error_message("sweep", directory.string(),
                    " is used by another sweep; wait for it, or name another with --into"));
}

// A run can be made longer, but not shorter.
std::string longer_than(const fs::path& run, const trainer::config::Config& before,
                        const trainer::config::Config& now) {
  const auto taken = steps_taken(run);
  if (now.run.steps > 0 && taken > now.run.steps) {
    return "has taken " + counted(taken, "step") +
           ", more than run.steps = " + std::to_string(now.run.steps);
  }
  const bool epochs = before.run.steps == 0 && now.run.steps == 0;  // what both count
  if (taken > 0 && epochs && before.run.epochs > now.run.epochs) {
    return "was run for run.epochs = " + std::to_string(before.run.epochs) + ", more than " +
           std::to_string(now.run.epochs);
  }
  return "";
}

}  // namespace

std::vector<std::string> settings_of(const Cell& cell, const fs::path& into, int threads) {
  auto settings = cell.settings;
  settings.push_back("run.dir=" + into.string());
  settings.push_back("run.threads=" + std::to_string(threads));
  return settings;
}

std::int64_t steps_taken(const fs::path& run) {
  if (!fs::is_directory(run / "checkpoints")) return 0;
  const auto checkpoints = trainer::run::CheckpointStore(run / "checkpoints").list();
  if (checkpoints.empty()) return 0;
  const std::string name = checkpoints.back().filename().string();  // step-100
  return std::strtoll(name.c_str() + name.find('-') + 1, nullptr, 10);
}

SweepLock::SweepLock(const fs::path& directory)
    : own_(open_file(directory / ".sweep.lock", O_CLOEXEC)),
      runs_(open_file(directory / ".runs.lock", 0)) {
  if (::flock(own_, LOCK_EX | LOCK_NB) != 0) {
    throw used_by_another(directory);
  }
  if (::flock(runs_, LOCK_EX | LOCK_NB) == 0) return;
  std::cerr << "normball: waiting for the runs of an interrupted sweep to save their checkpoints\n";
  while (::flock(runs_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

void check_sweep_directory(const fs::path& directory) {
  trainer::files::check_directory(trainer::files::FileSystem::real(), directory);
  const fs::path lock = directory / ".sweep.lock";
  if (!fs::exists(lock)) return;  // and making it here would be for another sweep to find
  const int file = open_file(lock, O_CLOEXEC);
  const bool free = ::flock(file, LOCK_EX | LOCK_NB) == 0;
  ::close(file);
  if (!free) throw used_by_another(directory);
}

SweepLock::~SweepLock() {
  ::close(own_);
  ::close(runs_);
}

void refuse_keys(std::string_view where, const std::vector<std::string>& settings,
                 std::string_view owner, const OwnKeys& keys) {
  for (const auto& setting : settings) {
    const auto own = keys.find(setting.substr(0, setting.find('=')));
    if (own == keys.end()) continue;
    throw CLI::ValidationError(std::string(where), own->first + " is set by " + std::string(owner) +
                                                       " for each run" + own->second);
  }
}

Job job_of(const std::string& base, const Cell& cell, const fs::path& into, int threads) {
  Job job{.name = cell.name,
          .command = {"/proc/self/exe", "train", base, "--name", cell.name, "--resume"},
          .log = into / (cell.name + ".log")};
  for (const auto& setting : settings_of(cell, into, threads)) {
    job.command.insert(job.command.end(), {"--set", setting});
  }
  return job;
}

// A metric that no run of this configuration records, for what is then to be said before it starts.
void require_recorded(const std::string& metric, const trainer::config::Config& config) {
  const auto refuse = [&](const std::string& why) {
    throw CLI::ValidationError("metric", "'" + metric + "' " + why);
  };
  const std::string curve = metric.substr(0, metric.find(' '));
  if (curve.ends_with("accuracy") && trainer::config::model_kind(config).unit != "images") {
    refuse("is for images; model.kind " + config.model.kind + " has val_loss and loss");
  }
  if (curve.starts_with("iterate_") && config.train.average == "none") {
    refuse("is recorded beside an average; train.average is none");
  }
  const auto every = [&](const char* start, const char* key, std::int64_t steps) {
    if (curve.starts_with(start) && steps == 0) {
      refuse(std::string("is recorded every ") + key + " steps, which is 0");
    }
  };
  every("full_", "run.gap_every", config.run.gap_every);
  every("probe_", "run.probe_every", config.run.probe_every);
  if ((curve == "step_length" ||
       (curve == "rho" && !(config.optimizer.rho && config.optimizer.rho->automatic))) &&
      config.optimizer.stepsize == "none") {
    refuse("is recorded for rules that find it; optimizer.stepsize is none");
  }
}

void check_cells(const trainer::sweep::Plan& plan, const std::vector<Cell>& cells,
                 const fs::path& into, int threads) {
  for (const auto& cell : cells) {
    std::vector<std::string> warnings;
    trainer::config::Config config;
    try {
      trainer::config::validate_name(cell.name, "sweep: give values a label, or an axis a name");
      config = trainer::config::load_config(plan.base, settings_of(cell, into, threads), &warnings);
    } catch (const trainer::config::SettingError& error) {  // of --set or an axis
      throw trainer::config::SettingError(cell.name + ": " + error.what());
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(cell.name + ": " + error.what());
    }
    require_recorded(plan.metric, config);
    const fs::path run = into / cell.name;
    if (!fs::exists(run / "config.toml")) continue;
    const auto before = trainer::config::stored_config(run);
    const auto conflicts = trainer::config::result_conflicts(before, config);
    if (const auto text = longer_than(run, before, config); conflicts.empty() && !text.empty()) {
      throw std::runtime_error(
          error_message("sweep", run.string(), " ", text,
                        ": a longer run is not comparable. Ask for as many, or name another "
                        "directory with --into"));
    }
    if (conflicts.empty()) continue;
    throw std::runtime_error(
        error_message("sweep", run.string(), " was run with another configuration (",
                      conflicts.front(), "); name another directory with --into"));
  }
}

bool still_holds(const trainer::sweep::Plan& plan, const Cell& cell,
                 const trainer::sweep::Result& result, const fs::path& into, int threads) {
  const fs::path run = into / cell.name;
  if (cell.settings != result.settings || !fs::exists(run)) return false;
  if (!fs::exists(run / "config.toml")) return result.status == trainer::sweep::Status::Failed;
  const auto now = trainer::config::load_config(plan.base, settings_of(cell, into, threads)).run;
  const auto then = trainer::config::stored_config(run).run;
  if (then.steps != now.steps || then.epochs != now.epochs) return false;
  const bool whole = now.steps == 0 || result.steps == now.steps;
  return whole || result.status != trainer::sweep::Status::Finished;
}

}  // namespace normball::cli
