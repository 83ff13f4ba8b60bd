// The largest column.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "normball/norms/resolved_norm.h"

namespace normball {

// max_j ‖column j of x‖₂ / √out
struct ColNorm {
  bool transposed = false;  // the weight is stored as (fan-in, fan-out): its rows are meant
  friend bool operator==(const ColNorm&, const ColNorm&) = default;

  static constexpr std::array<std::string_view, 1> names = {"col"};
  static ColNorm parse(TextCall& call);
  std::string text() const;
  ResolvedNorm resolve(const Shape& shape) const;
};

}  // namespace normball
