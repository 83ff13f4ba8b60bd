// Gram matrices of float data in double with 512-bit vectors, which BLAS libraries of today do not
// always use: a part of kernels_variant.cpp, which alone may include it.
#pragma once

#include "normball/internal/kernels/kernels_variant.h"
#include "normball/matrix_view.h"

namespace normball::detail {
namespace {

#ifdef __AVX512F__

typedef float Floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef double Doubles __attribute__((vector_size(64), aligned(8), may_alias));

// Rows of a panel at once, and entries of a vector.
constexpr Index tile_rows = 8;

// to[l gram_panel + i] <- x[i stride + l] for i, l < 8
inline void pack_square(double* __restrict to, const float* __restrict x, Index stride) {
  Floats row[8], pair[8], four[8];
  for (int i = 0; i < 8; ++i) row[i] = *reinterpret_cast<const Floats*>(x + i * stride);
  for (int i = 0; i < 8; i += 2) {
    pair[i] = __builtin_shufflevector(row[i], row[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pair[i + 1] = __builtin_shufflevector(row[i], row[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int k = 0; k < 2; ++k) {
      const Floats a = pair[i + k], b = pair[i + k + 2];
      four[i + 2 * k] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
      four[i + 2 * k + 1] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int k = 0; k < 4; ++k) {
    const Floats low = __builtin_shufflevector(four[k], four[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    const Floats high = __builtin_shufflevector(four[k], four[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    *reinterpret_cast<Doubles*>(to + k * gram_panel) = __builtin_convertvector(low, Doubles);
    *reinterpret_cast<Doubles*>(to + (k + 4) * gram_panel) = __builtin_convertvector(high, Doubles);
  }
}

// The first `rows` rows of x, and zeros, as one panel: entry (i, l) is at to[l gram_panel + i].
void pack_panel(double* __restrict to, const float* __restrict x, Index stride, bool across,
                Index rows, Index depth) {
  if (across) {
    for (Index l = 0; l < depth; ++l, to += gram_panel) {
      const float* from = x + l * stride;
      if (rows == gram_panel) {
        for (Index i = 0; i < gram_panel; ++i) to[i] = static_cast<double>(from[i]);
      } else {
        for (Index i = 0; i < gram_panel; ++i) to[i] = i < rows ? static_cast<double>(from[i]) : 0;
      }
    }
    return;
  }
  for (Index i = 0; i < gram_panel; i += tile_rows) {
    Index l = 0;
    for (; i + tile_rows <= rows && l + tile_rows <= depth; l += tile_rows) {
      pack_square(to + l * gram_panel + i, x + i * stride + l, stride);
    }
    for (; l < depth; ++l) {
      for (Index k = i; k < i + tile_rows; ++k) {
        to[l * gram_panel + k] = k < rows ? static_cast<double>(x[k * stride + l]) : 0;
      }
    }
  }
}

// r <- (r +) a bᵀ for eight rows of one panel and all of another; the tile has rows x cols entries.
void multiply_tile(double* __restrict r, Index stride, const double* __restrict a,
                   const double* __restrict b, Index depth, Index rows, Index cols, bool add) {
  constexpr int vectors = gram_panel / 8;
  Doubles sum[tile_rows][vectors] = {};
  for (Index l = 0; l < depth; ++l, a += gram_panel, b += gram_panel) {
    Doubles right[vectors];
    for (int q = 0; q < vectors; ++q) right[q] = *reinterpret_cast<const Doubles*>(b + 8 * q);
    for (Index k = 0; k < tile_rows; ++k) {
      for (int q = 0; q < vectors; ++q) sum[k][q] += right[q] * a[k];
    }
  }
  if (rows == tile_rows && cols == gram_panel) {
    for (Index k = 0; k < tile_rows; ++k) {
      for (int q = 0; q < vectors; ++q) {
        Doubles& to = *reinterpret_cast<Doubles*>(r + k * stride + 8 * q);
        to = add ? to + sum[k][q] : sum[k][q];
      }
    }
    return;
  }
  for (Index k = 0; k < rows; ++k) {
    for (Index j = 0; j < cols; ++j) {
      double& to = r[k * stride + j];
      to = (add ? to : 0) + sum[k][j / 8][j % 8];
    }
  }
}

void gram_by_tiles(double* r, Index r_stride, const float* x, Index stride, bool across, Index n,
                   Index depth, bool add, double* work) {
  const Index size = gram_panel * depth;
  const auto least = [](Index a, Index b) { return a < b ? a : b; };
  for (Index i = 0; i < n; i += gram_panel) {
    pack_panel(work + i * depth, x + (across ? i : i * stride), stride, across,
               least(gram_panel, n - i), depth);
  }
  for (Index j = 0; j < n; j += gram_panel) {
    const double* b = work + j / gram_panel * size;
    for (Index i = 0; i < least(n, j + gram_panel); i += tile_rows) {
      const double* a = work + i / gram_panel * size + i % gram_panel;
      multiply_tile(r + i * r_stride + j, r_stride, a, b, depth, least(tile_rows, n - i),
                    least(gram_panel, n - j), add);
    }
  }
}

constexpr auto gram_of_floats = &gram_by_tiles;

#else

constexpr void (*gram_of_floats)(double*, Index, const float*, Index, bool, Index, Index, bool,
                                 double*) = nullptr;

#endif

}  // namespace
}  // namespace normball::detail
