// The largest row.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "normball/norms/resolved_norm.h"

namespace normball {

// √in max_i ‖x_i‖₂
struct RowNorm {
  bool transposed = false;  // the weight is stored as (fan-in, fan-out): its columns are meant
  friend bool operator==(const RowNorm&, const RowNorm&) = default;

  static constexpr std::array<std::string_view, 1> names = {"row"};
  static RowNorm parse(TextCall& call);
  std::string text() const;
  ResolvedNorm resolve(const Shape& shape) const;
};

}  // namespace normball
