// The usual norm of a parameter by its shape alone.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "normball/norms/resolved_norm.h"

namespace normball {

// Spectral for matrices and convolutions, Rms for vectors and scalars.
struct Auto {
  friend bool operator==(const Auto&, const Auto&) = default;

  static constexpr std::array<std::string_view, 1> names = {"auto"};
  static Auto parse(TextCall& call);
  std::string text() const;
  ResolvedNorm resolve(const Shape& shape) const;
};

}  // namespace normball
