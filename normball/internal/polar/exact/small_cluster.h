// Eigenvectors of eigenvalues too close to each other for bisection. Internal.
#pragma once

#include "normball/internal/polar/exact/tridiagonal.h"

namespace normball::detail {

// The values.size() smallest eigenvalues of t, which lie below `bound`, ascending, and their
// eigenvectors as rows. The rows of `others` are, roughly, those of the eigenvalues between `bound`
// and `limit`; `scale` bounds all. False where these are not separated well enough.
bool small_cluster(const Tridiagonal<double>& t, double bound, double limit, double scale,
                   ConstMatrixView<double> others, std::span<double> values,
                   MatrixView<double> vectors, Workspace& workspace);

}  // namespace normball::detail
