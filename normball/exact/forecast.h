// What a Gram matrix says about its spectrum before it is reduced. Internal.
#pragma once

#include "normball/matrix_view.h"
#include "normball/workspace.h"

namespace normball::detail {

// Whether the eigenvalues of r (upper triangle) may all be of one size, at the cost of reading it.
template <class T>
bool looks_flat(ConstMatrixView<T> r);

// Whether more directions are small than can be split off, from the pivots of a Cholesky
// factorization of r, shifted to clean_ratio. `scratch` is as large as r.
template <class T>
bool many_are_small(ConstMatrixView<T> r, MatrixView<T> scratch, Workspace& workspace);

}  // namespace normball::detail
