// The largest singular value.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "normball/norms/resolved_norm.h"

namespace normball {

enum class SpectralScale {
  Hidden,  // √(out/in): RMS -> RMS
  Input,   // max(1, √(out/in)): image input
  OneHot,  // √out: one-hot input
  Unit,    // 1: the plain spectral norm, also for convolutions
};

// sigma_max(x) / scale
struct Spectral {
  SpectralScale scale = SpectralScale::Hidden;
  bool transposed = false;  // the weight is stored as (fan-in, fan-out)
  PolarSolver solver = ExactPolar{};
  friend bool operator==(const Spectral&, const Spectral&) = default;

  static constexpr std::array<std::string_view, 1> names = {"spectral"};
  static Spectral parse(TextCall& call);
  std::string text() const;
  ResolvedNorm resolve(const Shape& shape) const;
};

}  // namespace normball
