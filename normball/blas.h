// The only place that calls BLAS and LAPACK. Row-major views in, no allocation: what LAPACK needs
// in memory comes from the workspace.
#pragma once

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

// c <- alpha s b + beta c with s symmetric, of which the upper triangle is read.
template <class T>
void symm_left(T alpha, ConstMatrixView<T> s, ConstMatrixView<T> b, T beta, MatrixView<T> c);

// c <- alpha b s + beta c with s symmetric, of which the upper triangle is read.
template <class T>
void symm_right(T alpha, ConstMatrixView<T> b, ConstMatrixView<T> s, T beta, MatrixView<T> c);

// Copies the upper triangle onto the lower.
template <class T>
void mirror_upper(MatrixView<T> c);

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
