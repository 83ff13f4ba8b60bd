// What a rule may look at when it chooses eta.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace normball {

// The value of StepInput::loss where none was given.
constexpr double no_loss = std::numeric_limits<double>::quiet_NaN();

struct StepInput {
  double pairing = 0;         // s
  double direction_norm = 1;  // ‖v‖, only for rules that need it
  std::int64_t step = 0;      // k
  double distance = 0;        // ‖x − x_0‖, only for rules that need it
  // Σ_l f_l <d_l, v_l> with the layers' lr factors f_l: γη times this is what the step takes off
  // <d, x>. It is s where all factors are 1.
  double slope = 0;
  double gamma = 1;                     // lr / rho
  double alpha = 1;                     // of the newest gradient in d
  double loss = no_loss;                // f at x, only for rules that need it
  std::span<const double> memory = {};  // of the rule; zeros before the first step
};

}  // namespace normball
