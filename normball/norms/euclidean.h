// Norms of the whole matrix as one vector.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "normball/norms/resolved_norm.h"

namespace normball {

struct Euclidean {
  friend bool operator==(const Euclidean&, const Euclidean&) = default;

  static constexpr std::array<std::string_view, 2> names = {"euclidean", "frobenius"};
  static Euclidean parse(TextCall& call);
  std::string text() const;
  ResolvedNorm resolve(const Shape& shape) const;
};

// ‖x‖₂ / √size
struct Rms {
  friend bool operator==(const Rms&, const Rms&) = default;

  static constexpr std::array<std::string_view, 1> names = {"rms"};
  static Rms parse(TextCall& call);
  std::string text() const;
  ResolvedNorm resolve(const Shape& shape) const;
};

}  // namespace normball
