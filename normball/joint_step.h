// How far a whole model goes: one s and one η, also where its layers are prepared in several parts
// (on several devices or machines, or by another implementation of the layers).
//
//   s ← Σ_p s_p      the parts' pairings, as the product norm combines dual norms
//   η ← rule(s)
//   part p then applies η times its share
#pragma once

#include <cstdint>
#include <span>

#include "normball/method.h"

namespace normball {

struct JointStep {
  double pairing = 0;         // s
  double direction_norm = 0;  // ‖v‖, where the rule needs it
  double wolfe_gap = 0;       // s where constrained, else 0
  double eta = 0;
  bool clipped = false;  // the rule clips, and η was cut at ρ
  bool stalled = false;  // constrained and s < 0, so η = 0
  StepInput input = {};  // what the rule looked at
};

// The step of a model by all that its rule may look at. Of a rule with a memory the driver keeps
// it: memory_size(method.rule) numbers, zeros at first, which remember() changes when the step is
// taken.
//   const JointStep joint = decide_step(method, {..., .memory = memory});
//   ... apply joint.eta ...
//   remember(method.rule, joint.input, joint.eta, memory);
JointStep decide_step(const Method& method, const StepInput& input);

// The step of a model whose s and ‖v‖ are known; `step` is k, from 0.
JointStep decide_step(const Method& method, double pairing, double direction_norm,
                      std::int64_t step);
// The same with an η that the rule did not choose, e.g. by a search along v.
JointStep decide_step_with_eta(const Method& method, double pairing, double direction_norm,
                               double eta);

// The same from the s and ‖v‖ of its parts. shares[p] <- the factor of η in part p: 1 where the
// product norm is the maximum, else what the combination gives. Parts of a constrained method with
// another combination than the maximum cannot be joined: their shares are not a matter of s alone.
JointStep join_parts(const Method& method, std::span<const double> pairings,
                     std::span<const double> direction_norms, std::int64_t step,
                     std::span<double> shares);

// The same from all that the parts' reports have after prepare(), one number of each for a part;
// distances may be left out where the rule does not need them. `whole` brings what is not a part's:
// k, γ, α, the loss and the memory.
struct PartNumbers {
  std::span<const double> pairings, direction_norms, slopes, distances = {};
};
JointStep join_parts(const Method& method, const PartNumbers& parts, const StepInput& whole,
                     std::span<double> shares);

}  // namespace normball
