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
  static constexpr double final_ratio = 8e-4;   // λmin / λmax from which one level is enough
  static constexpr double strict_ratio = 0.02;  // ... exact to rounding
  static constexpr double deviation = 1e-3;     // largest ‖I - R‖_F without a closing step
  // ... from which the closing step repairs what one level leaves.
  static double clean_ratio(Index n) { return 5e-5 * std::sqrt(1 + static_cast<double>(n) / 512); }
  // ... below which directions are split off: rounding turns theirs against the others'.
  static double split_ratio(Index n) { return 6 * clean_ratio(n); }
  static constexpr double accept = 1e-5;  // ‖I - R‖ that needs no closing step
  static constexpr double grid_decades = 8;
};

template <>
struct Tuning<double> {
  static constexpr double noise = 9e-16;
  static constexpr double loss = 3e-12;
  static constexpr double final_ratio = 1e-3;
  static constexpr double strict_ratio = 1e-3;
  static constexpr double deviation = 4e-13;
  static double clean_ratio(Index) { return 3e-7; }
  static double split_ratio(Index n) { return clean_ratio(n); }
  static constexpr double accept = 5e-13;
  static constexpr double grid_decades = 16;
};

}  // namespace normball::detail
