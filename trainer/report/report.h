// One self-contained page that compares runs: curves, and a table of results.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/report/layer_maps.h"

namespace normball::trainer::report {

struct CurvePoint {
  double step = 0;
  double seconds = 0;  // NaN where the line had none
  double value = 0;    // NaN and infinities make a gap
};

// The curves that are read from metrics.jsonl, of those that a run has.
std::span<const std::string_view> curve_names();

// What the page shows of a run directory.
struct RunData {
  std::filesystem::path directory;
  std::string name;                                       // the directory's
  std::map<std::string, std::string> settings;            // method, lr, ...: from config.toml
  std::map<std::string, std::vector<CurvePoint>> curves;  // loss, val_loss, ... by metric
  std::map<std::string, LayerMap> layers;                 // pairing, weight_norm, ...
  std::int64_t steps = 0;
  std::optional<double> seconds = {};
  std::optional<double> throughput = {};  // mean items per second
  std::string items = {};
  std::optional<double> clipped_share = {};
  std::optional<std::int64_t> nonfinite_step = {};  // where loss or gradient were not finite first
  std::int64_t skipped = 0;                         // such steps that the run passed over
  bool diverged = false;                            // it took all its steps in vain
  bool unreadable = false;                          // something of it; the remarks say what
  std::vector<std::string> remarks = {};
  // Model, data and tokenizer: results of runs in which these differ do not compare.
  std::string task = {};
};

// Needs metrics.jsonl; that it is still empty is only a remark. Without a config.toml that can be
// read the settings are missing. A run that was made longer has what it recorded at its earlier
// ends, or not (see earlier_ends.h).
enum class EarlierEnds { Keep, LeaveOut };
RunData read_run(const std::filesystem::path& directory, EarlierEnds ends = EarlierEnds::Keep);

// Names that are the same get as much of their path as tells them apart.
void tell_apart(std::span<RunData> runs);

// At most `count` points: the extremes of each stretch stay, so that spikes are not lost.
std::vector<CurvePoint> thin(const std::vector<CurvePoint>& points, size_t count);

// Whether the results of all of them are of the same task. A best is marked only where they are.
bool of_one_task(std::span<const RunData> runs);

// The runs are told apart already.
std::string report_page(std::span<const RunData> runs);

}  // namespace normball::trainer::report
