// The exact polar factor of a float matrix of any spectrum, through its Gram matrix in double.
// Internal.
#pragma once

#include <cstddef>

#include "normball/internal/polar/short_side.h"

namespace normball::detail {

// q <- U Vᵀ over the singular values above `cut` times the largest one. `spare` is as large as q.
// False where LAPACK fails.
bool polar_through_double(const ShortSide<float>& side, ConstMatrixView<float> x, double cut,
                          MatrixView<float> q, MatrixView<float> spare, Workspace& workspace);

// The most memory that takes, whatever the spectrum, for a short side n.
std::size_t through_double_bytes(Index n, Index length);

}  // namespace normball::detail
