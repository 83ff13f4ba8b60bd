// The eigenvectors at the small end of a tridiagonal matrix. Internal.
#pragma once

#include "normball/exact/tridiagonal.h"

namespace normball::detail {

// The values.size() smallest eigenvalues of t, ascending, and their eigenvectors as the rows of
// `vectors`. `limit` lies above them and below the others, `scale` is a bound of all. False where
// they cannot be had to rounding.
template <class T>
bool smallest_eigenpairs(const Tridiagonal<T>& t, double limit, double scale, std::span<T> values,
                         MatrixView<T> vectors, Workspace& workspace);

}  // namespace normball::detail
