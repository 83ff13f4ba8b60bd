// Where a run goes on: which checkpoint, and of which run. Nothing is written here.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/run/checkpoint.h"

namespace normball::trainer::run {

struct StartingPoint {
  std::optional<Checkpoint> checkpoint = {};  // none: step 0
  bool own = false;                           // it is one of this run's own
  // For run.resume in config.toml: "never", or the checkpoint of another run that this one started
  // from.
  std::string origin = "never";
  std::vector<std::string> notes = {};  // what the user should know
};

// What run.resume asks for. Throws, with the remedy, where that would lose a run: a directory that
// holds one is neither started nor taken over from elsewhere, and checkpoints of which none can be
// read are not trained over.
StartingPoint find_starting_point(const config::Config& config,
                                  const std::filesystem::path& directory);

// Whether there are checkpoints, whole or not, or recorded steps.
bool holds_run(const std::filesystem::path& directory);
constexpr auto holds_run_already =
    " already holds a run; --resume continues it, --name starts another";
[[noreturn]] void refuse_to_write_over(const std::filesystem::path& directory);

// Of a checkpoint: runs/a of runs/a/checkpoints/step-10.
std::filesystem::path run_of(const std::filesystem::path& checkpoint);

// As config.toml has it: with absolute paths, so that it holds in every folder, and where the run
// started from.
config::Config as_recorded(config::Config config, const std::string& origin);

// The run directory's configuration, changed by the settings. Data that is not where it was is
// looked for in the same place relative to the run, which `recorded_in` (may be empty) was when it
// was written: run and data may have been moved together. What the settings name is taken as it is.
config::Config configuration_of(const std::filesystem::path& directory,
                                std::span<const std::string> settings, std::string_view command,
                                const std::filesystem::path& recorded_in);

// Throws where the configuration makes another model than the one that the checkpoint was written
// of, which tensors of the same shapes would hide. Earlier versions recorded nothing to compare.
void require_same_model(const Checkpoint& checkpoint, const config::Config& config);

// Whether one of them is "key=...".
bool sets(std::span<const std::string> settings, std::string_view key);

}  // namespace normball::trainer::run
