#include "trainer/ops/product.h"

#include <oneapi/dnnl/dnnl.h>

#include <stdexcept>

namespace normball::trainer::ops {

void product(ConstMatrixView<float> a, Op op_a, ConstMatrixView<float> b, Op op_b, float beta,
             MatrixView<float> c) {
  if (c.rows == 0 || c.cols == 0) return;
  const auto letter = [](Op op) { return op == Op::None ? 'N' : 'T'; };
  const Index inner = op_a == Op::None ? a.cols : a.rows;
  const auto status = dnnl_sgemm(letter(op_a), letter(op_b), c.rows, c.cols, inner, 1, a.data,
                                 a.stride, b.data, b.stride, beta, c.data, c.stride);
  if (status != dnnl_success) throw std::runtime_error("[product] oneDNN failed");
}

void product(ConstMatrixView<double> a, Op op_a, ConstMatrixView<double> b, Op op_b, double beta,
             MatrixView<double> c) {
  blas::gemm<double>(1, a, op_a, b, op_b, beta, c);
}

}  // namespace normball::trainer::ops
