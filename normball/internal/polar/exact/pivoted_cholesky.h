// A Cholesky factorization that stops where the rest is negligible. Internal.
#pragma once

#include <span>

#include "normball/matrix_view.h"
#include "normball/workspace.h"

namespace normball::detail {

// r, with its rows and columns in the order of `order`, is uᵀ u up to a rest of norm `limit` at
// most, or one whose diagonal is at most `noise`. u is upper trapezoidal, in the first rows of `u`
// (n x n). Reads both halves of r and destroys it. Returns the number of rows.
Index pivoted_cholesky(MatrixView<double> r, double limit, double noise, std::span<Index> order,
                       MatrixView<double> u, Workspace& workspace, int threads);

}  // namespace normball::detail
