#include "normball/joint_step.h"

#include "normball/base/error.h"

namespace normball {

JointStep decide_step(const Method& method, double pairing, double direction_norm,
                      std::int64_t step) {
  const StepInput input{.pairing = pairing, .direction_norm = direction_norm, .step = step};
  return decide_step_with_eta(method, pairing, direction_norm, eta(method.rule, input));
}

JointStep decide_step_with_eta(const Method& method, double pairing, double direction_norm,
                               double eta) {
  return {.pairing = pairing,
          .direction_norm = direction_norm,
          .wolfe_gap = method.constrained ? pairing : 0,
          .eta = eta,
          .clipped = is_clipped(method.rule, eta),
          .stalled = method.constrained && eta == 0 && pairing < 0};
}

JointStep join_parts(const Method& method, std::span<const double> pairings,
                     std::span<const double> direction_norms, std::int64_t step,
                     std::span<double> shares) {
  if (pairings.size() != direction_norms.size() || pairings.size() != shares.size()) {
    throw_invalid("join_parts", "got ", pairings.size(), " pairings, ", direction_norms.size(),
                  " norms and ", shares.size(), " shares; there must be one of each for a part");
  }
  if (method.constrained && method.combination != Combination::Max && pairings.size() > 1) {
    throw_invalid("join_parts", "a constrained method can join parts only in the maximum norm");
  }
  if (pairings.size() == 1) {  // it is the whole: to the bit what the optimizer alone would do
    shares[0] = 1;
    return decide_step(method, pairings[0], direction_norms[0], step);
  }
  const double pairing = combine_duals(method.combination, pairings, shares);
  return decide_step(method, pairing, combine_norms(method.combination, direction_norms), step);
}

}  // namespace normball
