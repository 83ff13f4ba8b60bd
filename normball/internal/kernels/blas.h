// The only place that calls BLAS and LAPACK. Row-major views in, no allocation: what LAPACK needs
// in memory comes from the workspace.
#pragma once

#include <span>

#include "normball/matrix_view.h"
#include "normball/workspace.h"

namespace normball::blas {

enum class Op { None, Transpose };

// c <- alpha op(a) op(b) + beta c
template <class T>
void gemm(T alpha, ConstMatrixView<T> a, Op op_a, ConstMatrixView<T> b, Op op_b, T beta,
          MatrixView<T> c);

// The upper triangle (in row-major terms) of c <- alpha x xᵀ + beta c, or of alpha xᵀ x + beta c.
template <class T>
void syrk(T alpha, ConstMatrixView<T> x, Op op, T beta, MatrixView<T> c);

// The upper triangle of c <- alpha (aᵀ b + bᵀ a) + beta c.
template <class T>
void syr2k(T alpha, ConstMatrixView<T> a, ConstMatrixView<T> b, T beta, MatrixView<T> c);

// y <- alpha op(a) x + beta y, with the entries of x `step` apart.
template <class T>
void gemv(T alpha, ConstMatrixView<T> a, Op op, const T* x, Index step, T beta, T* y);

// c <- alpha s b + beta c with s symmetric, of which the upper triangle is read.
template <class T>
void symm_left(T alpha, ConstMatrixView<T> s, ConstMatrixView<T> b, T beta, MatrixView<T> c);

// c <- alpha b s + beta c with s symmetric, of which the upper triangle is read.
template <class T>
void symm_right(T alpha, ConstMatrixView<T> b, ConstMatrixView<T> s, T beta, MatrixView<T> c);

// Copies the upper triangle onto the lower.
template <class T>
void mirror_upper(MatrixView<T> c);

// The Cholesky factor u of a symmetric matrix s = uᵀ u, in place in its upper triangle; false where
// s is not positive definite.
template <class T>
bool cholesky(MatrixView<T> s);

// x <- u⁻ᵀ x for an upper triangular u, or x <- x u⁻¹.
template <class T>
void solve_triangular_left(ConstMatrixView<T> u, MatrixView<T> x);
template <class T>
void solve_triangular_right(ConstMatrixView<T> u, MatrixView<T> x);

// The values.size() smallest eigenvalues of a symmetric tridiagonal matrix, ascending, and their
// eigenvectors as the rows of `vectors`; false where LAPACK fails. `diagonal` and `off_diagonal`
// (both of the matrix's size) are destroyed.
template <class T>
bool smallest_eigenpairs(std::span<T> diagonal, std::span<T> off_diagonal, std::span<T> values,
                         MatrixView<T> vectors, Workspace& workspace);

// All eigenvalues of a symmetric tridiagonal matrix, ascending, in place of its diagonal, and their
// eigenvectors as the rows of `vectors`; false where LAPACK fails. `off_diagonal` is destroyed.
// More robust, but OpenBLAS may allocate.
template <class T>
bool eigenpairs(std::span<T> diagonal, std::span<T> off_diagonal, MatrixView<T> vectors,
                Workspace& workspace);

// The singular values of x, descending, into sigma (min(rows, cols) of them). x is destroyed.
template <class T>
void singular_values(MatrixView<T> x, T* sigma, Workspace& workspace);

// x = u diag(sigma) vt, reduced: u is rows x k, vt is k x cols, k = min(rows, cols). x is
// destroyed.
template <class T>
void svd(MatrixView<T> x, MatrixView<T> u, T* sigma, MatrixView<T> vt, Workspace& workspace);

// Orthonormal rows spanning the rows of x (rows <= cols), in place, by Householder reflections.
template <class T>
void orthonormalize_rows(MatrixView<T> x, Workspace& workspace);

}  // namespace normball::blas
