// The runs of sweeps and experiments: their directory, their commands, what must be true before
// they start.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/side_by_side.h"
#include "trainer/config/config.h"
#include "trainer/sweep/plan.h"
#include "trainer/sweep/results.h"

namespace normball::cli {

// A sweep's directory, for this process alone. Runs that an ended sweep left behind still hold the
// second lock, which they inherited, until they have saved their checkpoints.
class SweepLock {
 public:
  explicit SweepLock(const std::filesystem::path& directory);
  ~SweepLock();
  SweepLock(const SweepLock&) = delete;
  SweepLock& operator=(const SweepLock&) = delete;

 private:
  int own_, runs_;
};

// For a dry run: throws where the directory cannot be made or written to, or is used by another
// sweep. Leaves nothing.
void check_sweep_directory(const std::filesystem::path& directory);

// Keys that a command sets for each run, and what to use instead. Throws CLI::ValidationError where
// a setting has one.
using OwnKeys = std::map<std::string, std::string>;
void refuse_keys(std::string_view where, const std::vector<std::string>& settings,
                 std::string_view owner, const OwnKeys& keys);

// The cell's, and those that a command sets for each run.
std::vector<std::string> settings_of(const trainer::sweep::Cell& cell,
                                     const std::filesystem::path& into, int threads);

// The step of a run's newest checkpoint; 0 without one, or where `train` will say what is wrong.
std::int64_t steps_taken(const std::filesystem::path& run);

// `normball train` for the cell, into a directory of its name in `into`.
Job job_of(const std::string& base, const trainer::sweep::Cell& cell,
           const std::filesystem::path& into, int threads);

// Refuses a metric, "" or a curve and what of it, that no run of this configuration records.
void require_recorded(const std::string& metric, const trainer::config::Config& config);

// Every configuration is read before anything starts, and must be that of the run already there,
// which must not be longer.
void check_cells(const trainer::sweep::Plan& plan, const std::vector<trainer::sweep::Cell>& cells,
                 const std::filesystem::path& into, int threads);

// Whether a recorded result is that of the cell as it is to be run now: the settings, which may
// have changed in the sweep, and the length, which may have changed in its base.
bool still_holds(const trainer::sweep::Plan& plan, const trainer::sweep::Cell& cell,
                 const trainer::sweep::Result& result, const std::filesystem::path& into,
                 int threads);

}  // namespace normball::cli
