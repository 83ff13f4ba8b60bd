// Compiled once for each instruction set: variants.h says what that forbids here.
#include "normball/internal/kernels/variants.h"
#include "trainer/ops/row_kernels.h"

namespace normball::trainer::ops {
namespace {

// Independent partial sums, so that a sum vectorizes without changing its order between processors.
constexpr Index lanes = 16;

template <class T, class Term>
T sum_of(Index n, Term term) {
  T partial[lanes] = {};
  Index i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (Index j = 0; j < lanes; ++j) partial[j] += term(i + j);
  }
  for (Index j = 0; i + j < n; ++j) partial[j] += term(i + j);
  for (Index width = lanes / 2; width > 0; width /= 2) {
    for (Index j = 0; j < width; ++j) partial[j] += partial[j + width];
  }
  return partial[0];
}

template <class T>
T max_of(const T* x, Index n) {
  T partial[lanes];
  for (Index j = 0; j < lanes; ++j) partial[j] = -static_cast<T>(__builtin_inf());
  Index i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (Index j = 0; j < lanes; ++j) partial[j] = x[i + j] > partial[j] ? x[i + j] : partial[j];
  }
  for (; i < n; ++i) partial[0] = x[i] > partial[0] ? x[i] : partial[0];
  for (Index j = 1; j < lanes; ++j) partial[0] = partial[j] > partial[0] ? partial[j] : partial[0];
  return partial[0];
}

// exp for x <= 0 within 2 ulp: 2^k exp(r) with |r| <= ln2 / 2 and a polynomial for exp(r). Below
// -87 the result is 1.6e-38 instead of less, which no sum of probabilities notices.
float exp_of(float x) {
  constexpr float round = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer
  x = x < -87.0F ? -87.0F : x;
  const float shifted = x * 1.44269504089F + round;
  const auto k = __builtin_bit_cast(std::int32_t, shifted);
  const float n = shifted - round;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;  // ln2 in two parts
  float p = 1.0F / 5040;
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const auto bits = __builtin_bit_cast(std::uint32_t, p) + (static_cast<std::uint32_t>(k) << 23U);
  return x == x ? __builtin_bit_cast(float, bits) : x;  // NaN stays NaN
}
double exp_of(double x) { return __builtin_exp(x); }

float log_of(float x) { return __builtin_logf(x); }
double log_of(double x) { return __builtin_log(x); }
float sqrt_of(float x) { return __builtin_sqrtf(x); }
double sqrt_of(double x) { return __builtin_sqrt(x); }

template <class T>
T normalize(const T* x, T* y, Index n, T eps) {
  const T mean = sum_of<T>(n, [x](Index i) { return x[i] * x[i]; }) / static_cast<T>(n);
  const T factor = T(1) / sqrt_of(mean + eps);
  for (Index i = 0; i < n; ++i) y[i] = factor * x[i];
  return factor;
}

template <class T>
void normalize_backward(const T* g, const T* y, T factor, T* dx, Index n) {
  const T mean = sum_of<T>(n, [=](Index i) { return g[i] * y[i]; }) / static_cast<T>(n);
  for (Index i = 0; i < n; ++i) dx[i] = factor * (g[i] - y[i] * mean);
}

template <class T>
void rotate_halves(T* __restrict a, T* __restrict b, const T* cos, const T* sin, T sign, Index n) {
  for (Index i = 0; i < n; ++i) {
    const T turned_a = a[i] * cos[i] + b[i] * (sign * sin[i]);
    b[i] = b[i] * cos[i] - a[i] * (sign * sin[i]);
    a[i] = turned_a;
  }
}

template <class T>
void rotate(T* x, const T* cos, const T* sin, T sign, Index n) {
  rotate_halves(x, x + n, cos, sin, sign, n);
}

template <class T>
void relu_squared(const T* x, T* y, Index n) {
  for (Index i = 0; i < n; ++i) {
    const T positive = x[i] > 0 ? x[i] : T(0);
    y[i] = 2 * positive * positive;
  }
}

template <class T>
void relu_squared_backward(const T* y, const T* g, T* dx, Index n) {
  for (Index i = 0; i < n; ++i) dx[i] = g[i] * sqrt_of(8 * y[i]);
}

template <class T>
T softmax(T* s, T scale, T total, Index n) {
  const T top = scale * max_of(s, n);
  for (Index i = 0; i < n; ++i) s[i] = exp_of(scale * s[i] - top);
  const T sum = sum_of<T>(n, [s](Index i) { return s[i]; });
  const T factor = total / sum;
  for (Index i = 0; i < n; ++i) s[i] *= factor;
  return top + log_of(sum);
}

template <class T>
void probabilities(T* s, T scale, T log_sum, Index n) {
  for (Index i = 0; i < n; ++i) s[i] = exp_of(scale * s[i] - log_sum);
}

template <class T>
void softmax_backward(const T* p, T* dp, T shift, T scale, Index n) {
  for (Index i = 0; i < n; ++i) dp[i] = scale * p[i] * (dp[i] - shift);
}

template <class T>
T dot(const T* a, const T* b, Index n) {
  return sum_of<T>(n, [=](Index i) { return a[i] * b[i]; });
}

template <class T>
constexpr RowKernels<T> table = {.normalize = normalize<T>,
                                 .normalize_backward = normalize_backward<T>,
                                 .rotate = rotate<T>,
                                 .relu_squared = relu_squared<T>,
                                 .relu_squared_backward = relu_squared_backward<T>,
                                 .softmax = softmax<T>,
                                 .probabilities = probabilities<T>,
                                 .softmax_backward = softmax_backward<T>,
                                 .dot = dot<T>};

}  // namespace

const RowKernels<float>& NORMBALL_VARIANT_NAME(row_kernels, float)() { return table<float>; }
const RowKernels<double>& NORMBALL_VARIANT_NAME(row_kernels, double)() { return table<double>; }

}  // namespace normball::trainer::ops
