// Products in double with long float matrices, which are converted piece by piece. Internal.
#pragma once

#include <span>
#include <type_traits>

#include "normball/internal/kernels/kernels.h"
#include "normball/internal/polar/short_side.h"

namespace normball::detail {

// to <- from in the other precision.
template <class From, class To>
void convert(MatrixView<From> from, MatrixView<To> to) {
  using In = std::remove_const_t<From>;
  for (Index i = 0; i < from.rows; ++i) {
    if constexpr (std::is_same_v<To, double>) {
      kernels<In>().to_double(to.row(i), from.row(i), from.cols);
    } else {
      kernels<To>().from_double(to.row(i), from.row(i), from.cols);
    }
  }
}

// r <- x xᵀ  (xᵀ x on the right side), upper triangle
void gram_in_double(const ShortSide<float>& side, ConstMatrixView<float> x, MatrixView<double> r,
                    Workspace& workspace);

// part <- u x  (x uᵀ)
template <class T>
void project_on(const ShortSide<T>& side, ConstMatrixView<double> u, ConstMatrixView<T> x,
                MatrixView<double> part, Workspace& workspace);

// out <- x - vᵀ part  (x - part v)
void subtract_products(const ShortSide<float>& side, ConstMatrixView<double> v,
                       ConstMatrixView<double> part, ConstMatrixView<float> x,
                       MatrixView<float> out, Workspace& workspace);

// part <- part (I - outᵀ out): without its components along the directions of `out`.
template <class T>
void project_out(const ShortSide<T>& side, ConstMatrixView<T> out, MatrixView<double> part,
                 Workspace& workspace);

// q <- s x for a symmetric matrix s  (x s)
void multiply_in_double(const ShortSide<float>& side, ConstMatrixView<double> s,
                        ConstMatrixView<float> x, MatrixView<float> q, Workspace& workspace);

}  // namespace normball::detail
