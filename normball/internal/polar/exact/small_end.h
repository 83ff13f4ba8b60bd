// The eigenvectors at either end of a tridiagonal matrix. Internal.
#pragma once

#include "normball/internal/polar/exact/inverse_sqrt.h"
#include "normball/internal/polar/exact/tridiagonal.h"

namespace normball::detail {

// The eigenvectors of the vectors.rows smallest eigenvalues of t go to `vectors`, as rows, and out
// of factor = f(T + shift) (upper triangle). `limit` lies above these eigenvalues and below the
// others, `scale` is a bound of all. False where LAPACK fails.
template <class T>
bool split_small_end(const Tridiagonal<T>& t, double limit, double scale, const Quadrature& f,
                     double shift, MatrixView<T> factor, MatrixView<T> vectors,
                     Workspace& workspace);

// The values.size() smallest eigenvalues, ascending, and their eigenvectors as rows; `limit` and
// `scale` as above.
template <class T>
bool smallest_eigenpairs(const Tridiagonal<T>& t, double limit, double scale, std::span<T> values,
                         MatrixView<T> vectors, Workspace& workspace);

// The values.size() largest eigenvalues, descending, and their eigenvectors as rows. `limit` lies
// below them and above the others, `scale` is a bound of all. False where LAPACK fails.
template <class T>
bool largest_eigenpairs(const Tridiagonal<T>& t, double limit, double scale, std::span<T> values,
                        MatrixView<T> vectors, Workspace& workspace);

}  // namespace normball::detail
