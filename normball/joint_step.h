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
};

// The step of a model whose s and ‖v‖ are known; `step` is k, from 0.
JointStep decide_step(const Method& method, double pairing, double direction_norm,
                      std::int64_t step);

// The same from the s and ‖v‖ of its parts. shares[p] <- the factor of η in part p: 1 where the
// product norm is the maximum, else what the combination gives. Parts of a constrained method with
// another combination than the maximum cannot be joined: their shares are not a matter of s alone.
JointStep join_parts(const Method& method, std::span<const double> pairings,
                     std::span<const double> direction_norms, std::int64_t step,
                     std::span<double> shares);

}  // namespace normball
