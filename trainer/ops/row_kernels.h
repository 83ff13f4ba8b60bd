// The loops over rows that the fused operations share: no framework, no allocation, compiled for
// several instruction sets and chosen at run time. float is the fast path; double exists for
// gradient checks.
#pragma once

#include <cstdint>

namespace normball::trainer::ops {

using Index = std::int64_t;

template <class T>
struct RowKernels {
  // y <- x / sqrt(mean(x²) + eps); returns the factor.
  T (*normalize)(const T* x, T* y, Index n, T eps);
  // dx <- factor (g - y mean(g y)): the gradient through normalize, from its result.
  void (*normalize_backward)(const T* g, const T* y, T factor, T* dx, Index n);
  // (a, b) <- (a cos + b sin, b cos - a sin) for the halves a, b of a row of 2n; in place. The
  // inverse rotation has sign -1.
  void (*rotate)(T* x, const T* cos, const T* sin, T sign, Index n);
  // y <- 2 max(x, 0)²
  void (*relu_squared)(const T* x, T* y, Index n);
  // dx <- 4 max(x, 0) g, with max(x, 0) taken back from y.
  void (*relu_squared_backward)(const T* y, const T* g, T* dx, Index n);
  // s <- total * softmax(scale s) over the first n entries, in place; returns log Σ exp(scale s).
  T (*softmax)(T* s, T scale, T total, Index n);
  // s <- exp(scale s - log_sum): the same probabilities from a known log Σ exp.
  void (*probabilities)(T* s, T scale, T log_sum, Index n);
  // dp <- scale p (dp - shift)
  void (*softmax_backward)(const T* p, T* dp, T shift, T scale, Index n);
  T (*dot)(const T* a, const T* b, Index n);
};

// The table of the chosen variant (normball/internal/kernels/variants.h).
template <class T>
const RowKernels<T>& row_kernels();

const RowKernels<float>& row_kernels_generic_float();
const RowKernels<double>& row_kernels_generic_double();
const RowKernels<float>& row_kernels_avx2_float();
const RowKernels<double>& row_kernels_avx2_double();
const RowKernels<float>& row_kernels_avx512_float();
const RowKernels<double>& row_kernels_avx512_double();

}  // namespace normball::trainer::ops
