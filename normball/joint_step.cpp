#include "normball/joint_step.h"

#include <numeric>

#include "normball/base/error.h"

namespace normball {

JointStep decide_step(const Method& method, const StepInput& input) {
  JointStep joint =
      decide_step_with_eta(method, input.pairing, input.direction_norm, eta(method.rule, input));
  joint.input = input;
  return joint;
}

JointStep decide_step(const Method& method, double pairing, double direction_norm,
                      std::int64_t step) {
  return decide_step(
      method,
      {.pairing = pairing, .direction_norm = direction_norm, .step = step, .slope = pairing});
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
  return join_parts(method, {pairings, direction_norms, pairings}, {.step = step}, shares);
}

JointStep join_parts(const Method& method, const PartNumbers& parts, const StepInput& whole,
                     std::span<double> shares) {
  const auto& [pairings, direction_norms, slopes, distances] = parts;
  if (pairings.size() != direction_norms.size() || pairings.size() != shares.size() ||
      pairings.size() != slopes.size() ||
      (needs_distance(method.rule) && distances.size() != pairings.size())) {
    throw_invalid("join_parts", "got ", pairings.size(), " pairings, ", direction_norms.size(),
                  " norms, ", slopes.size(), " slopes, ", distances.size(), " distances and ",
                  shares.size(), " shares; there must be one of each for a part");
  }
  if (method.constrained && method.combination != Combination::Max && pairings.size() > 1) {
    throw_invalid("join_parts", "a constrained method can join parts only in the maximum norm");
  }
  StepInput input = whole;
  if (pairings.size() == 1) {  // it is the whole: to the bit what the optimizer alone would do
    shares[0] = 1;
    input.pairing = pairings[0];
    input.direction_norm = direction_norms[0];
    input.slope = slopes[0];
    input.distance = distances.empty() ? 0 : distances[0];
    return decide_step(method, input);
  }
  input.pairing = combine_duals(method.combination, pairings, shares);
  input.direction_norm = combine_norms(method.combination, direction_norms);
  input.distance = combine_norms(method.combination, distances);
  input.slope = std::inner_product(shares.begin(), shares.end(), slopes.begin(), 0.0);
  return decide_step(method, input);
}

}  // namespace normball
