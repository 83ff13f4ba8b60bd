// What a Gram matrix says about its spectrum before it is reduced. Internal.
#pragma once

#include "normball/internal/polar/short_side.h"

namespace normball::detail {

// Whether the eigenvalues of r (upper triangle) may all be of one size, at the cost of reading it.
template <class T>
bool looks_flat(ConstMatrixView<T> r);

// The same from every eighth row (column) of x, without its Gram matrix; true where x is small.
template <class T>
bool sample_looks_flat(const ShortSide<T>& side, ConstMatrixView<T> x, Workspace& workspace);

// Whether all eigenvalues of r are above a share `ratio` of the largest, and not only just, from a
// Cholesky factorization of r less as much. `scratch` is as large as r.
template <class T>
bool looks_regular(ConstMatrixView<T> r, double ratio, MatrixView<T> scratch);

// Whether most eigenvalues of r are above `shift`, and not too few above `level`, which is larger,
// from pivots of a Cholesky factorization of r + shift. `scratch` is as large as r.
template <class T>
bool looks_full(ConstMatrixView<T> r, double shift, double level, MatrixView<T> scratch);

}  // namespace normball::detail
