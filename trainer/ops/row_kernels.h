// The loops over rows that the fused operations share: no framework, no allocation, compiled for
// several instruction sets and chosen at run time. float is the fast path; double exists for
// gradient checks.
#pragma once

#include <cstdint>

namespace normball::trainer::ops {

using Index = std::int64_t;

// y <- x / sqrt(mean(x²) + eps); returns the factor.
float normalize_row(const float* x, float* y, Index n, float eps);
double normalize_row(const double* x, double* y, Index n, double eps);

// dx <- factor (g - y mean(g y)): the gradient through normalize_row, from its result.
void normalize_row_backward(const float* g, const float* y, float factor, float* dx, Index n);
void normalize_row_backward(const double* g, const double* y, double factor, double* dx, Index n);

// (a, b) <- (a cos + b sin, b cos - a sin) for the halves a, b of a row of 2n; in place. The
// inverse rotation has -sin.
void rotate_row(float* x, const float* cos, const float* sin, float sign, Index n);
void rotate_row(double* x, const double* cos, const double* sin, double sign, Index n);

// y <- 2 max(x, 0)²
void relu_squared_row(const float* x, float* y, Index n);
void relu_squared_row(const double* x, double* y, Index n);
// dx <- 4 max(x, 0) g, with max(x, 0) taken back from y.
void relu_squared_row_backward(const float* y, const float* g, float* dx, Index n);
void relu_squared_row_backward(const double* y, const double* g, double* dx, Index n);

// s <- total * softmax(scale s) over the first n entries, in place; returns log Σ exp(scale s).
float softmax_row(float* s, float scale, float total, Index n);
double softmax_row(double* s, double scale, double total, Index n);

// s <- exp(scale s - log_sum): the same probabilities from a known log Σ exp.
void probabilities_row(float* s, float scale, float log_sum, Index n);
void probabilities_row(double* s, double scale, double log_sum, Index n);

// dp <- scale p (dp - shift)
void softmax_row_backward(const float* p, float* dp, float shift, float scale, Index n);
void softmax_row_backward(const double* p, double* dp, double shift, double scale, Index n);

float dot_row(const float* a, const float* b, Index n);
double dot_row(const double* a, const double* b, Index n);

}  // namespace normball::trainer::ops
