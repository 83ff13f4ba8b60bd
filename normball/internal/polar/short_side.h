// The products of a polar solver, which act on the short side of x: from the left where x is wide,
// from the right where it is tall. So nothing is ever transposed. Internal.
#pragma once

#include <algorithm>

#include "normball/internal/kernels/blas.h"
#include "normball/matrix_view.h"

namespace normball::detail {

// Symmetric matrices are given and returned in their upper triangles. Below, n is the short side.
template <class T>
struct ShortSide {
  bool left;
  int threads;

  static ShortSide of(ConstMatrixView<T> x, int threads) { return {x.rows <= x.cols, threads}; }

  Index size(ConstMatrixView<T> x) const { return left ? x.rows : x.cols; }
  Index length(ConstMatrixView<T> x) const { return left ? x.cols : x.rows; }
  // A matrix with n rows (columns on the right side) as long as x.
  MatrixView<T> matrix(Index n, ConstMatrixView<T> x, Workspace& workspace) const {
    return left ? workspace.matrix<T>(n, x.cols) : workspace.matrix<T>(x.rows, n);
  }

  // A stretch of the long side.
  template <class U>
  MatrixView<U> stretch(MatrixView<U> x, Index begin, Index count) const {
    return left ? x.block(0, begin, x.rows, count) : x.block(begin, 0, count, x.cols);
  }

  // r <- alpha x xᵀ + beta r  (xᵀ x on the right side)
  void gram(T alpha, ConstMatrixView<T> x, T beta, MatrixView<T> r) const;
  // c <- y xᵀ + beta c  (yᵀ x)
  void cross_gram(ConstMatrixView<T> y, ConstMatrixView<T> x, T beta, MatrixView<T> c) const;
  // out <- s x + beta out  (x s)
  void multiply(ConstMatrixView<T> s, ConstMatrixView<T> x, T beta, MatrixView<T> out) const;
  // out <- alpha op(a) x + beta out  (x op(a)ᵀ)
  void transform(T alpha, ConstMatrixView<T> a, blas::Op op, ConstMatrixView<T> x, T beta,
                 MatrixView<T> out) const;

 private:
  template <class Body>
  void for_each_panel(ConstMatrixView<T> x, Index rows, const Body& body) const;
  // Rows (columns) of the short side.
  template <class U>
  MatrixView<U> part(MatrixView<U> x, Index begin, Index count) const {
    return left ? x.block(begin, 0, count, x.cols) : x.block(0, begin, x.rows, count);
  }
};

}  // namespace normball::detail
