// A search for lr and rho by short runs: what to try next, from what was seen before. Whoever calls
// it runs the trials, and decides how long one is and what it is judged by.
//
//   1. lr at five places, each four times the one before. While the best lies at an end, one more
//      beyond it; then half and twice the best.
//   2. rho at quantiles of the s that the best run saw, below all of them and above all of them,
//      with the lr that leaves a step at the median of s as long as it was.
//   3. where that changed rho, half and twice the lr, and on while the best lies at an end.
//   4. the best, its neighbours and the best other rho once more on other data: what is chance.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace normball {

struct TuningPoint {
  double lr = 0;
  std::optional<double> rho = {};

  friend bool operator==(const TuningPoint&, const TuningPoint&) = default;
};
std::string to_string(const TuningPoint& point);  // "lr 0.1, rho 3"

struct TuningOptions {
  double lr = 0.01;                // where the search begins
  std::optional<double> rho = {};  // the same; none: with every step clipped, which needs no rho
  bool tune_rho = false;           // false: no point has a rho
  double lowest_lr = 0;            // that is allowed
  double highest_lr = std::numeric_limits<double>::infinity();
  int repeats = 1;  // how often the best and its neighbours are run
};
// Throws std::invalid_argument.
void validate(const TuningOptions& options);

struct TuningTrial {
  TuningPoint point;
  int repeat = 0;  // from 0; equal ones see the same data at all points
};

struct TuningOutcome {
  double score = std::numeric_limits<double>::quiet_NaN();  // the smaller the better; not finite:
                                                            // it diverged
  double first = std::numeric_limits<double>::quiet_NaN();  // the score before any step, if known
  std::vector<double> s = {};                               // of its steps, if known
};

enum class TuningStage { Lr, Rho, LrAgain, Repeats };
std::string_view to_string(TuningStage stage);

struct TriedPoint {
  TuningPoint point;
  TuningStage stage = TuningStage::Lr;  // in which it was tried first
  std::vector<double> scores = {};      // of each repeat
  std::string note = {};                // what its rho is: "the median of s"

  double mean() const;  // not finite where a run diverged
};

struct TuningResult {
  TuningPoint best;
  double score = 0;                       // the mean over its repeats
  std::vector<TriedPoint> tried = {};     // in the order in which they were run
  std::vector<std::string> remarks = {};  // what to know before believing it
};

// Runs the trials, of which none depends on another, and returns as many outcomes.
using RunTrials =
    std::function<std::vector<TuningOutcome>(TuningStage stage, std::span<const TuningTrial>)>;

// Throws std::runtime_error where every trial diverged, and what `run` throws. The same outcomes
// lead to the same trials.
TuningResult tune(const TuningOptions& options, const RunTrials& run);

// How many trials there are at most.
int most_trials(const TuningOptions& options);

// Whether a run is past saving: its losses until now are not finite, or ten of them in a row were
// above three times the first. What is diverging once stays so.
bool is_diverging(std::span<const double> losses);

}  // namespace normball
