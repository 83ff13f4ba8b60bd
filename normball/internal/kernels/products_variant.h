// Products with symmetric matrices and with few rows, which read memory once: a part of
// kernels_variant.cpp, which alone may include it.
#pragma once

#include "normball/matrix_view.h"

namespace normball::detail {
namespace {

// What a vector register holds, at any address. Sums are kept as for vectors of 64 bytes, which the
// compiler does not cut into smaller ones well, so their order is the same in every variant.
#if defined(__AVX512F__)
constexpr Index native_bytes = 64;
#elif defined(__AVX__)
constexpr Index native_bytes = 32;
#else
constexpr Index native_bytes = 16;
#endif
constexpr int parts = 64 / native_bytes;

template <class T>
struct Wide;
template <>
struct Wide<float> {
  typedef float type __attribute__((vector_size(native_bytes), aligned(4), may_alias));
  typedef int lanes __attribute__((vector_size(native_bytes)));
};
template <>
struct Wide<double> {
  typedef double type __attribute__((vector_size(native_bytes), aligned(8), may_alias));
  typedef long lanes __attribute__((vector_size(native_bytes)));
};

// The sum of the lanes of 64 bytes.
template <class T>
T sum_of_lanes(const typename Wide<T>::type* sums) {
  constexpr Index width = 64 / sizeof(T), native = width / parts;
  T partial[width];
  for (Index l = 0; l < width; ++l) partial[l] = sums[l / native][l % native];
  for (Index half = width / 2; half > 0; half /= 2) {
    for (Index l = 0; l < half; ++l) partial[l] += partial[l + half];
  }
  return partial[0];
}

// Rows j to j + count - 1: y is read and written once for them. Columns are taken in multiples of
// the vector's width, so that a matrix with aligned rows is read aligned; what of the first vector
// lies left of the triangle is masked out. The rows that follow are fetched meanwhile.
template <int count, class T>
void add_symmetric_band(T* __restrict y, const T* __restrict a, Index stride, const T* __restrict x,
                        Index j, Index n) {
  using V = typename Wide<T>::type;
  using Lanes = typename Wide<T>::lanes;
  constexpr Index width = 64 / sizeof(T), native = width / parts;
  const T* row[count];
  T factor[count], sum[count] = {};
  V sums[count][parts] = {};
  for (int k = 0; k < count; ++k) {
    row[k] = a + (j + k) * stride;
    factor[k] = x[j + k];
    sum[k] += row[k][j + k] * factor[k];
    for (int l = 0; l < k; ++l) {
      sum[l] += row[l][j + k] * factor[k];
      sum[k] += row[l][j + k] * factor[l];
    }
  }
  // The 64 bytes at i, without the first `skip` entries.
  const auto add = [&]<bool masked>(Index i, Index skip) {
    for (int p = 0; p < parts; ++p) {
      const Index at = i + p * native;
      Lanes lane = {};
      if constexpr (masked) {
        for (Index l = 0; l < native; ++l) lane[l] = p * native + l >= skip ? -1 : 0;
      }
      V xi = *reinterpret_cast<const V*>(x + at), product = {};
      if constexpr (masked) xi = lane ? xi : V{};
      for (int k = 0; k < count; ++k) {
        V r = *reinterpret_cast<const V*>(row[k] + at);
        if constexpr (masked) r = lane ? r : V{};
        if (p == 0) __builtin_prefetch(row[k] + count * stride + i);
        product += r * factor[k];
        sums[k][p] += r * xi;
      }
      *reinterpret_cast<V*>(y + at) += product;
    }
  };
  Index i = j + count;
  const Index aligned = i / width * width;
  if (aligned < i && aligned + width <= n) {
    add.template operator()<true>(aligned, i - aligned);
    i = aligned + width;
  }
  for (; i + width <= n; i += width) add.template operator()<false>(i, 0);
  for (; i < n; ++i) {
    for (int k = 0; k < count; ++k) {
      y[i] += row[k][i] * factor[k];
      sum[k] += row[k][i] * x[i];
    }
  }
  for (int k = 0; k < count; ++k) y[j + k] += sum[k] + sum_of_lanes<T>(sums[k]);
}

template <class T>
void add_symmetric_rows(T* __restrict y, const T* __restrict a, Index stride, const T* __restrict x,
                        Index begin, Index end, Index n) {
  Index j = begin;
  for (; j + 4 <= end; j += 4) add_symmetric_band<4>(y, a, stride, x, j, n);
  for (; j < end; ++j) add_symmetric_band<1>(y, a, stride, x, j, n);
}

// `count_wide` times 64 bytes of out at once, which stay in registers.
template <int count_wide, class T>
void subtract_rows_at(T* __restrict out, const T* __restrict v, const T* __restrict w, Index stride,
                      const T* __restrict a, const T* __restrict b, Index count) {
  using V = typename Wide<T>::type;
  constexpr Index native = native_bytes / sizeof(T);
  constexpr int vectors = count_wide * parts;
  V sum[vectors];
  for (int l = 0; l < vectors; ++l) sum[l] = *reinterpret_cast<const V*>(out + l * native);
  for (Index k = 0; k < count; ++k, v += stride, w += stride) {
    for (int l = 0; l < vectors; ++l) {
      sum[l] -= *reinterpret_cast<const V*>(v + l * native) * a[k];
      sum[l] -= *reinterpret_cast<const V*>(w + l * native) * b[k];
    }
  }
  for (int l = 0; l < vectors; ++l) *reinterpret_cast<V*>(out + l * native) = sum[l];
}

template <class T>
void subtract_rows(T* __restrict out, const T* __restrict v, const T* __restrict w, Index stride,
                   const T* __restrict a, const T* __restrict b, Index count, Index n) {
  constexpr Index width = 64 / sizeof(T);
  const auto one = [&](Index i) {
    for (Index k = 0; k < count; ++k) {
      out[i] -= v[k * stride + i] * a[k];
      out[i] -= w[k * stride + i] * b[k];
    }
  };
  Index i = 0;
  // Vectors then start at lines of the cache, where the rows do.
  while (i < n && reinterpret_cast<unsigned long>(out + i) % 64 != 0) one(i++);
  for (; i + 4 * width <= n; i += 4 * width) {
    subtract_rows_at<4>(out + i, v + i, w + i, stride, a, b, count);
  }
  for (; i + width <= n; i += width) {
    subtract_rows_at<1>(out + i, v + i, w + i, stride, a, b, count);
  }
  for (; i < n; ++i) one(i);
}

template <class T>
void subtract_wide_rows(T* __restrict out, const T* __restrict x, const double* __restrict v,
                        Index stride, const double* __restrict a, Index count, Index n) {
  constexpr Index width = 32;
  double sum[width];
  Index i = 0;
  for (; i + width <= n; i += width) {
    for (Index l = 0; l < width; ++l) sum[l] = static_cast<double>(x[i + l]);
    for (Index k = 0; k < count; ++k) {
      for (Index l = 0; l < width; ++l) sum[l] -= a[k] * v[k * stride + i + l];
    }
    for (Index l = 0; l < width; ++l) out[i + l] = static_cast<T>(sum[l]);
  }
  for (; i < n; ++i) {
    double rest = static_cast<double>(x[i]);
    for (Index k = 0; k < count; ++k) rest -= a[k] * v[k * stride + i];
    out[i] = static_cast<T>(rest);
  }
}

template <int rows, class T>
void products_of(T* __restrict products, const T* __restrict v, Index stride, const T* __restrict x,
                 Index n) {
  using V = typename Wide<T>::type;
  constexpr Index width = 64 / sizeof(T), native = width / parts;
  V sums[rows][parts] = {};
  T sum[rows] = {};
  Index i = 0;
  for (; i < n && reinterpret_cast<unsigned long>(x + i) % 64 != 0; ++i) {
    for (int k = 0; k < rows; ++k) sum[k] += v[k * stride + i] * x[i];
  }
  for (; i + width <= n; i += width) {
    for (int p = 0; p < parts; ++p) {
      const V xi = *reinterpret_cast<const V*>(x + i + p * native);
      for (int k = 0; k < rows; ++k) {
        sums[k][p] += *reinterpret_cast<const V*>(v + k * stride + i + p * native) * xi;
      }
    }
  }
  for (; i < n; ++i) {
    for (int k = 0; k < rows; ++k) sum[k] += v[k * stride + i] * x[i];
  }
  for (int k = 0; k < rows; ++k) products[k] = sum[k] + sum_of_lanes<T>(sums[k]);
}

template <class T>
void row_products(T* __restrict products, const T* __restrict v, Index stride,
                  const T* __restrict x, Index count, Index n) {
  Index k = 0;
  for (; k + 4 <= count; k += 4) products_of<4>(products + k, v + k * stride, stride, x, n);
  for (; k < count; ++k) products_of<1>(products + k, v + k * stride, stride, x, n);
}

template <class T>
void subtract_rank_2(T* a, Index stride, const T* __restrict v, const T* __restrict w, Index n) {
  for (Index i = 0; i < n; ++i) {
    T* __restrict row = a + i * stride;
    const T vi = v[i], wi = w[i];
    for (Index j = i; j < n; ++j) row[j] -= vi * w[j] + wi * v[j];
  }
}

}  // namespace
}  // namespace normball::detail
