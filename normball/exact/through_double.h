// The exact polar factor of a float matrix of any spectrum, through its Gram matrix in double.
// Internal.
#pragma once

#include "normball/short_side.h"

namespace normball::detail {

// q <- U Vᵀ over the singular values above `cut` times the largest one. False where LAPACK fails.
bool polar_through_double(const ShortSide<float>& side, ConstMatrixView<float> x, double cut,
                          MatrixView<float> q, Workspace& workspace);

}  // namespace normball::detail
