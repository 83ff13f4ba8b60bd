// Matrix products of the fused operations: oneDNN's for float, BLAS for double. On the shapes of a
// transformer's layers oneDNN is 5 to 20 % faster than OpenBLAS (docs/performance.md).
#pragma once

#include "normball/internal/kernels/blas.h"

namespace normball::trainer::ops {

using blas::Op;

// c <- op(a) op(b) + beta c. One thread inside a parallel region, all of them outside; the bits do
// not depend on their number.
void product(ConstMatrixView<float> a, Op op_a, ConstMatrixView<float> b, Op op_b, float beta,
             MatrixView<float> c);
void product(ConstMatrixView<double> a, Op op_a, ConstMatrixView<double> b, Op op_b, double beta,
             MatrixView<double> c);

}  // namespace normball::trainer::ops
