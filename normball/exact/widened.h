// Products in double with long float matrices, which are converted piece by piece. Internal.
#pragma once

#include <span>

#include "normball/short_side.h"

namespace normball::detail {

// to <- from in the other precision.
template <class From, class To>
void convert(MatrixView<From> from, MatrixView<To> to) {
  for (Index i = 0; i < from.rows; ++i) {
    const From* in = from.row(i);
    To* out = to.row(i);
    for (Index j = 0; j < from.cols; ++j) out[j] = static_cast<To>(in[j]);
  }
}

// part <- u x  (x uᵀ on the right side)
template <class T>
void project_on(const ShortSide<T>& side, ConstMatrixView<double> u, ConstMatrixView<T> x,
                MatrixView<double> part, Workspace& workspace);

// part <- part (I - outᵀ out): without its components along the directions of `out`.
template <class T>
void project_out(const ShortSide<T>& side, ConstMatrixView<T> out, MatrixView<double> part,
                 Workspace& workspace);

// to <- x - uᵀ diag(shares) u x  (x - x uᵀ diag(shares) u)
void take_out(const ShortSide<float>& side, ConstMatrixView<double> u,
              std::span<const double> shares, ConstMatrixView<float> x, MatrixView<float> to,
              Workspace& workspace);

// q <- s x for a symmetric matrix s  (x s)
void multiply_in_double(const ShortSide<float>& side, ConstMatrixView<double> s,
                        ConstMatrixView<float> x, MatrixView<float> q, Workspace& workspace);

}  // namespace normball::detail
