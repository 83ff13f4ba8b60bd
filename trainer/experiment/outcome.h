// What an experiment keeps of a run, small enough to be committed: the result that a sweep keeps,
// and the curves that decide.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/experiment/claim.h"
#include "trainer/sweep/plan.h"
#include "trainer/sweep/results.h"

namespace normball::trainer::experiment {

struct Outcome {
  std::string arm;
  sweep::Result result;
  // Evaluations and measurements as they are; of what is recorded in training, the means over 20
  // equal stretches of the steps, each at the stretch's end.
  std::map<std::string, Curve> curves = {};

  bool operator==(const Outcome&) const = default;
};

// Reads the run directory. A failure is what the process that trained it said, or empty.
Outcome outcome_of(const std::string& arm, const sweep::Plan& plan, const sweep::Cell& cell,
                   const std::filesystem::path& run, const std::string& failure);

// results.jsonl of an experiment; none where there is no file. Numbers of curves have 6 digits. A
// last line that cannot be read is left out, and `left_out` says so.
std::vector<Outcome> read_outcomes(const std::filesystem::path& file,
                                   std::string* left_out = nullptr);
void write_outcomes(const std::filesystem::path& file, std::span<const Outcome> outcomes);

// The run of this cell with these settings, or nullptr.
const Outcome* find_outcome(std::span<const Outcome> outcomes, const std::string& arm,
                            const sweep::Cell& cell);

// Means over `stretches` equal parts of the steps, each at its last step; stretches without a point
// are left out.
Curve stretch_means(const Curve& curve, int stretches);

}  // namespace normball::trainer::experiment
