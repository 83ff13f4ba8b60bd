// One rational step for spectra with many small singular values, by Cholesky alone. Internal.
#pragma once

#include "normball/matrix_view.h"
#include "normball/workspace.h"

namespace normball::detail {

// Whether the eigenvalues of r (upper triangle) look like each other, so that hardly many are
// small. A guess that costs nothing: it is wrong where the others are alike.
template <class T>
bool looks_flat(ConstMatrixView<T> r);

// p <- the factor of one dynamically weighted Halley step x <- p x for the Gram matrix r (upper
// triangles). False where too few directions are small and another treatment is cheaper, or where,
// after enough steps (`lifted`), the smallest are still at noise level: they are zero. p is then
// destroyed.
template <class T>
bool halley_factor(ConstMatrixView<T> r, bool lifted, MatrixView<T> p, Workspace& workspace);

}  // namespace normball::detail
