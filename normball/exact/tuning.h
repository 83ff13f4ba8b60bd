// Accuracy targets of the exact polar factor; docs/polar.md derives them. Internal.
#pragma once

#include <cmath>

#include "normball/matrix_view.h"

namespace normball::detail {

// λ below are eigenvalues of the Gram matrix R.
template <class T>
struct Tuning;

template <>
struct Tuning<float> {
  static constexpr double noise = 3e-7;  // ‖error of R‖ / ‖R‖, tridiagonalization included
  static constexpr double loss = 6e-6;   // error of a singular value the closing step may leave
  static constexpr double final_ratio = 5e-4;   // λmin / λmax from which one level is enough
  static constexpr double strict_ratio = 0.02;  // ... exact to rounding
  static constexpr double deviation = 1e-3;     // largest ‖I - R‖_F without a closing step
  // ... from which the closing step repairs what one level leaves.
  static double clean_ratio(Index n) { return 4e-5 * std::sqrt(1 + static_cast<double>(n) / 256); }
  static constexpr double accept = 1e-5;   // ‖I - R‖ that needs no closing step
  static constexpr double least = 6e-4;    // smallest singular value a Halley step is tuned for
  static constexpr int steps_to_lift = 2;  // Halley steps after which noise is zero
  static constexpr double grid_decades = 8;
};

template <>
struct Tuning<double> {
  static constexpr double noise = 9e-16;
  static constexpr double loss = 3e-12;
  static constexpr double final_ratio = 1e-3;
  static constexpr double strict_ratio = 1e-3;
  static constexpr double deviation = 1e-12;
  static double clean_ratio(Index) { return 1e-9; }
  static constexpr double accept = 5e-13;
  static constexpr double least = 1e-6;
  static constexpr int steps_to_lift = 1;
  static constexpr double grid_decades = 16;
};

}  // namespace normball::detail
