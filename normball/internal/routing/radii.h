// Radii from the architecture, for RoutingOptions::auto_radii. Internal.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "normball/internal/routing/facts.h"

namespace normball::detail {

// Throws for radii by role that are not positive, or would have no effect.
void check_radii(const RoutingOptions& options);

struct ChosenRadius {
  double radius = 1;
  std::string why;
};

// The norm that a weight has which passes signals on at their size:
//
//   Sign, on (out, in)         entries of 1/√in     √in, as the norm is scaled
//   RowNorm                    rows of length 1     √in
//   all others                                      1
//
// and 1/√(2L) of it for the matrices in L numbered blocks of four matrices or more, as those of a
// transformer, of all stages together where blocks are in stages: each of the 2L branches is a
// product of two matrices, so its gain is 1/(2L), and all of them together multiply a signal by at
// most (1 + 1/(2L))^(2L) < e, whatever L is.
class AutoRadii {
 public:
  AutoRadii(std::span<const ParameterInfo> parameters, const std::vector<Facts>& facts);
  ChosenRadius of(size_t parameter, const Route& route) const;

 private:
  std::vector<Index> blocks_;  // L of the blocks that a parameter is in, or 0
};

}  // namespace normball::detail
