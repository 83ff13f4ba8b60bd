// What the fused operations share.
#pragma once

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include "normball/matrix_view.h"
#include "trainer/ops/row_kernels.h"

namespace normball::trainer::ops {

inline bool fusible(const at::Tensor& x) {
  return x.device().is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
}

// Rows a thread takes at least: about 32 thousand elements.
inline Index grain(Index row_length) {
  return std::max<Index>(1, 32768 / std::max<Index>(1, row_length));
}

// A 2-d tensor whose rows are contiguous.
template <class T>
MatrixView<T> view_of(const at::Tensor& x) {
  return {x.data_ptr<T>(), x.size(0), x.size(1), x.stride(0)};
}

// body(T{}) for the tensor's type, float or double.
template <class Body>
void with_type(const at::Tensor& x, const Body& body) {
  if (x.scalar_type() == at::kFloat) {
    body(float{});
  } else {
    body(double{});
  }
}

}  // namespace normball::trainer::ops
