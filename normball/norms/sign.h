// The max-norm, whose LMO is the sign of every entry.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "normball/norms/resolved_norm.h"

namespace normball {

// fan-in max |x_ij|
struct Sign {
  bool unit = false;        // the plain max-norm, without 1 / fan-in
  bool transposed = false;  // the weight is stored as (fan-in, fan-out)
  friend bool operator==(const Sign&, const Sign&) = default;

  static constexpr std::array<std::string_view, 1> names = {"sign"};
  static Sign parse(TextCall& call);
  std::string text() const;
  ResolvedNorm resolve(const Shape& shape) const;
};

}  // namespace normball
