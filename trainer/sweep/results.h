// What came out of a sweep's cells: results.jsonl, one JSON object a line, and the same as CSV.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/sweep/plan.h"

namespace normball::trainer::report {
struct CurvePoint;
}

namespace normball::trainer::sweep {

enum class Status { Finished, Diverged, Failed, Stopped };  // the last by halving, before its end
std::string_view to_text(Status status);

// What a curve of a run comes to.
struct CurveSummary {
  double last = 0;
  double tail = 0;  // the mean of the points in the last quarter of the steps
  double best = 0;  // the smallest, or the largest accuracy

  bool operator==(const CurveSummary&) const = default;
};

CurveSummary summary_of(std::span<const report::CurvePoint> points, bool higher);

struct Result {
  std::string cell;                          // the name of the run directory
  std::map<std::string, std::string> place;  // the label on each axis
  std::int64_t seed = 0;
  std::vector<std::string> settings;  // with the base they make the run
  Status status = Status::Finished;
  std::string reason = {};  // of one that did not finish
  std::int64_t steps = 0;
  double seconds = 0;                               // of training; all starts together
  std::map<std::string, CurveSummary> curves = {};  // loss, val_loss, ...: where finite

  bool operator==(const Result&) const = default;
};

// Reads the run directory. A failure is what the process that trained it said, or empty.
Result result_of(const Plan& plan, const Cell& cell, const std::filesystem::path& run,
                 const std::string& failure);

std::string to_json(const Result& result);  // without a newline; reading back gives the same
Result parse_result(std::string_view line, std::string_view where);

// In the order of the file; none where there is no file. A last line that cannot be read is left
// out, as in metrics.jsonl, and `left_out` says so; one before it is an error.
std::vector<Result> read_results(const std::filesystem::path& file,
                                 std::string* left_out = nullptr);
// The same with a reader of one's own, who throws std::invalid_argument: a line and its place.
void for_each_result(const std::filesystem::path& file,
                     const std::function<void(const std::string&, const std::string&)>& use,
                     std::string* left_out = nullptr);
// Replaces the file in one operation.
void write_results(const std::filesystem::path& file, std::span<const Result> results);

// One line for each cell: the axes, the seed, status, steps, seconds, and each curve's summaries.
// No axis is called like one of the other columns: curves' names have an ending.
std::string to_csv(const Plan& plan, std::span<const Result> results);

bool higher_is_better(std::string_view metric);

}  // namespace normball::trainer::sweep
