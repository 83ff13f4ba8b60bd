// Products with symmetric matrices and with few rows, which read memory once: a part of
// kernels_variant.cpp, which alone may include it.
#pragma once

#include "normball/matrix_view.h"

namespace normball::detail {
namespace {

// 64 bytes at any address. The compiler cuts it into what the instruction set has, so the order of
// summation is the same in every variant.
template <class T>
struct Wide;
template <>
struct Wide<float> {
  typedef float type __attribute__((vector_size(64), aligned(4), may_alias));
  typedef int lanes __attribute__((vector_size(64)));
};
template <>
struct Wide<double> {
  typedef double type __attribute__((vector_size(64), aligned(8), may_alias));
  typedef long lanes __attribute__((vector_size(64)));
};

// Rows j to j + count - 1: y is read and written once for them. Columns are taken in multiples of
// the vector's width, so that a matrix with aligned rows is read aligned; what of the first vector
// lies left of the triangle is masked out. The rows that follow are fetched meanwhile.
template <int count, class T>
void add_symmetric_band(T* __restrict y, const T* __restrict a, Index stride, const T* __restrict x,
                        Index j, Index n) {
  using V = typename Wide<T>::type;
  constexpr Index width = 64 / sizeof(T);
  const T* row[count];
  T factor[count], sum[count] = {};
  V sums[count] = {};
  for (int k = 0; k < count; ++k) {
    row[k] = a + (j + k) * stride;
    factor[k] = x[j + k];
    sum[k] += row[k][j + k] * factor[k];
    for (int l = 0; l < k; ++l) {
      sum[l] += row[l][j + k] * factor[k];
      sum[k] += row[l][j + k] * factor[l];
    }
  }
  const auto add = [&](Index i, const auto&... keep) {
    V xi = *reinterpret_cast<const V*>(x + i), product = {};
    ((xi = keep ? xi : V{}), ...);
    for (int k = 0; k < count; ++k) {
      V r = *reinterpret_cast<const V*>(row[k] + i);
      ((r = keep ? r : V{}), ...);
      __builtin_prefetch(row[k] + count * stride + i);
      product += r * factor[k];
      sums[k] += r * xi;
    }
    *reinterpret_cast<V*>(y + i) += product;
  };
  Index i = j + count;
  const Index aligned = i / width * width;
  if (aligned < i && aligned + width <= n) {
    typename Wide<T>::lanes lane;
    for (Index l = 0; l < width; ++l) lane[l] = static_cast<int>(l);
    const auto keep = lane >= static_cast<int>(i - aligned);
    add(aligned, keep);
    i = aligned + width;
  }
  for (; i + width <= n; i += width) add(i);
  for (; i < n; ++i) {
    for (int k = 0; k < count; ++k) {
      y[i] += row[k][i] * factor[k];
      sum[k] += row[k][i] * x[i];
    }
  }
  for (int k = 0; k < count; ++k) {
    T partial[width];
    for (Index l = 0; l < width; ++l) partial[l] = sums[k][l];
    for (Index half = width / 2; half > 0; half /= 2) {
      for (Index l = 0; l < half; ++l) partial[l] += partial[l + half];
    }
    y[j + k] += sum[k] + partial[0];
  }
}

template <class T>
void add_symmetric_rows(T* __restrict y, const T* __restrict a, Index stride, const T* __restrict x,
                        Index begin, Index end, Index n) {
  Index j = begin;
  for (; j + 4 <= end; j += 4) add_symmetric_band<4>(y, a, stride, x, j, n);
  for (; j < end; ++j) add_symmetric_band<1>(y, a, stride, x, j, n);
}

// `wide` vectors of out at once, which stay in registers.
template <int wide, class T>
void subtract_rows_at(T* __restrict out, const T* __restrict v, const T* __restrict w, Index stride,
                      const T* __restrict a, const T* __restrict b, Index count) {
  using V = typename Wide<T>::type;
  constexpr Index width = 64 / sizeof(T);
  V sum[wide];
  for (int l = 0; l < wide; ++l) sum[l] = *reinterpret_cast<const V*>(out + l * width);
  for (Index k = 0; k < count; ++k, v += stride, w += stride) {
    for (int l = 0; l < wide; ++l) {
      sum[l] -= *reinterpret_cast<const V*>(v + l * width) * a[k];
      sum[l] -= *reinterpret_cast<const V*>(w + l * width) * b[k];
    }
  }
  for (int l = 0; l < wide; ++l) *reinterpret_cast<V*>(out + l * width) = sum[l];
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
  constexpr Index width = 64 / sizeof(T);
  V sums[rows] = {};
  T sum[rows] = {};
  Index i = 0;
  for (; i < n && reinterpret_cast<unsigned long>(x + i) % 64 != 0; ++i) {
    for (int k = 0; k < rows; ++k) sum[k] += v[k * stride + i] * x[i];
  }
  for (; i + width <= n; i += width) {
    const V xi = *reinterpret_cast<const V*>(x + i);
    for (int k = 0; k < rows; ++k) {
      sums[k] += *reinterpret_cast<const V*>(v + k * stride + i) * xi;
    }
  }
  for (; i < n; ++i) {
    for (int k = 0; k < rows; ++k) sum[k] += v[k * stride + i] * x[i];
  }
  for (int k = 0; k < rows; ++k) {
    T partial[width];
    for (Index l = 0; l < width; ++l) partial[l] = sums[k][l];
    for (Index half = width / 2; half > 0; half /= 2) {
      for (Index l = 0; l < half; ++l) partial[l] += partial[l + half];
    }
    products[k] = sum[k] + partial[0];
  }
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
