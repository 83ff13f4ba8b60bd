// R^{-1/2} x in float for a Gram matrix R = H T Hᵀ known in double, whatever its spectrum.
// Internal.
#pragma once

#include "normball/internal/polar/exact/tridiagonal.h"
#include "normball/internal/polar/short_side.h"

namespace normball::detail {

// Eigenvalues of t above `low` are kept, those below count as zero; `high` is the largest.
struct GradedGram {
  Reflectors<double> h;
  Tridiagonal<double> t;
  double low = 0, high = 0;
  Index kept = 0;
};

enum class Graded { Done, TooManyEnds, Failed };

// q <- R^{-1/2} x over the eigenvalues kept; `spare` is as large as q. TooManyEnds where that is
// not worth it, Failed where LAPACK fails; q is then not written.
Graded graded_polar(const ShortSide<float>& side, const GradedGram& gram, ConstMatrixView<float> x,
                    MatrixView<float> q, MatrixView<float> spare, Workspace& workspace);

}  // namespace normball::detail
