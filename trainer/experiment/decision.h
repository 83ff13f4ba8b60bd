// What the runs of an experiment decide, by the rule that its folder states.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/experiment/claim.h"
#include "trainer/experiment/experiment.h"
#include "trainer/experiment/outcome.h"
#include "trainer/sweep/summary.h"

namespace normball::trainer::experiment {

// By the experiment whose runs they are: an arm may belong to another one.
using Outcomes = std::map<std::string, std::vector<Outcome>>;

// What is known of an arm.
struct ArmState {
  sweep::Plan tuning;
  std::optional<sweep::Summary> tuned = {};        // where it has axes and a run has ended
  std::optional<std::vector<size_t>> chosen = {};  // the place on its axes; none: tuning goes on
  std::vector<const Outcome*> runs = {};           // by deciding seed; nullptr: not finished
  std::vector<std::string> objections = {};        // why it decides nothing

  bool whole() const;  // all deciding runs are there and finished
};

struct Decision {
  sweep::Metric metric;
  std::map<std::string, ArmState> arms;  // by name
  std::vector<Finding> findings;         // of the claims, in their order
  Answer answer = Answer::NotDecided;
  size_t runs = 0;  // that ended
  double hours = 0;
};

// A claim is not decided where an arm of it is not tuned to the end, where the best lies at the end
// of an axis, or where a deciding run is missing or did not finish; none of a quick version is.
// Without any run the answer to all of them is NotRun.
Decision decide(const Experiment& experiment, const Outcomes& outcomes);

// The verdict of each claim and of all together, a line each: what is committed as verdict.txt.
std::string verdict_text(const Experiment& experiment, const Decision& decision);

// "lr 0.1, rho 3", or "" where there is nothing to tune.
std::string chosen_text(const ArmState& state);
// The effect of a claim with its interval, in words.
std::string effect_text(const Claim& claim, const sweep::Metric& metric, const Finding& finding);

}  // namespace normball::trainer::experiment
