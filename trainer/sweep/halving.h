// Early stopping of a sweep by successive halving: at rungs, which are steps of the runs, only the
// best of the points go on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/sweep/plan.h"
#include "trainer/sweep/summary.h"

namespace normball::trainer::sweep {

// The steps at which runs of this length are compared: first, first * factor, ... below it.
std::vector<std::int64_t> rungs_of(const Halving& halving, std::int64_t steps);

// The metric of a run as it stood at a step, from what it had recorded until then. None where the
// run has no finite value there: it diverged, or was not trained that far.
std::optional<double> value_at(const std::filesystem::path& run, const Metric& metric,
                               std::int64_t step);

// How the points stand at a rung, each by its mean over the seeds; none where a seed has no value.
// The first go on: one in `factor` of all, rounded up, and never one without a value. Equal ones
// stay in their order.
struct Ranking {
  std::vector<size_t> best_first;  // of those with a value
  size_t points = 0, go_on = 0;

  bool goes_on(size_t point) const;
  // "stopped at step 100 of 400: 9th of 12 by val_loss (3.21), the best 4 go on"
  std::string reason(size_t point, const std::string& place, const Metric& metric,
                     std::optional<double> mean) const;
};
Ranking rank(std::span<const std::optional<double>> means, std::int64_t factor, bool higher);

}  // namespace normball::trainer::sweep
