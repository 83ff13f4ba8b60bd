// The table of kernels, alone: see kernels_variant.cpp for why it includes so little.
#pragma once

#include "normball/matrix_view.h"

namespace normball {

// The number of shifts of one Sturm sweep: enough to hide the latency of their divisions.
constexpr Index sturm_shifts = 48;

// The number of eigenvectors computed at once, for the same reason.
constexpr Index twisted_lanes = 16;

// The number of rows that Kernels::gram packs together.
constexpr Index gram_panel = 24;

// Sums are kept in double in a fixed order, so they do not depend on the number of threads.
template <class T>
struct Kernels {
  bool (*all_finite)(const T* x, Index n);
  double (*sum_abs)(const T* x, Index n);
  double (*sum_squares)(const T* x, double scale, Index n);  // of scale x
  double (*max_abs)(const T* x, Index n);
  double (*dot)(const T* x, const T* y, Index n);
  void (*scale)(T* x, double factor, Index n);
  // out <- alpha g + (1 - alpha) d; out may be d
  void (*blend)(T* out, const T* d, const T* g, double alpha, Index n);
  // out <- keep out + (u a) b; keep == 0 does not read out
  void (*add_scaled)(T* out, double keep, const T* u, double a, double b, Index n);
  // out <- keep out + factor sign(d)
  void (*add_signs)(T* out, double keep, const T* d, double factor, Index n);
  // sums[j] += (scale x[j])^2
  void (*add_squares)(double* sums, const T* x, double scale, Index n);
  // out[j] <- keep out[j] + (u[j] a[j]) b[j]
  void (*add_by_column)(T* out, double keep, const T* u, const double* a, const double* b, Index n);
  // g <- r g, then out <- out + g
  void (*scale_and_add)(T* g, T r, T* out, Index n);
  // y += s x for the n x n symmetric matrix s of which only rows begin to end-1 of the upper
  // triangle, and their mirror images, are not zero. Reads a once; sums in T.
  void (*add_symmetric_rows)(T* y, const T* a, Index stride, const T* x, Index begin, Index end,
                             Index n);
  // out <- out - Σ_k (a[k] v_k + b[k] w_k) for the rows v_k, w_k of two matrices of the same stride
  void (*subtract_rows)(T* out, const T* v, const T* w, Index stride, const T* a, const T* b,
                        Index count, Index n);
  // out <- x - Σ_k a[k] v_k for the rows v_k of a matrix in double; sums in double
  void (*subtract_wide_rows)(T* out, const T* x, const double* v, Index stride, const double* a,
                             Index count, Index n);
  // products[k] <- <v_k, x> for the rows v_k of a matrix; sums in T
  void (*row_products)(T* products, const T* v, Index stride, const T* x, Index count, Index n);
  // The upper triangle of the n x n matrix a <- a - v wᵀ - w vᵀ
  void (*subtract_rank_2)(T* a, Index stride, const T* v, const T* w, Index n);
  // counts[k] <- the number of eigenvalues below scale shifts[k] of the tridiagonal matrix with
  // diagonal d and off-diagonal e, for all sturm_shifts shifts
  void (*sturm_counts)(const T* d, const T* e, double scale, const double* shifts, Index* counts,
                       Index n);
  // Solves (T - values[l]) z = pivots[l] e_k, z_k = 1, for all twisted_lanes lanes l and the
  // tridiagonal matrix T with diagonal d and off-diagonal e; k is where the two ends of T,
  // eliminated towards each other, leave the smallest pivot. squares[l] <- |z|²; entry i of lane l
  // of `vectors` is at i twisted_lanes + l. `work` holds four times as much.
  void (*twisted_vectors)(const double* d, const double* e, const double* values, double* work,
                          double* vectors, double* pivots, double* squares, Index n);
  void (*to_double)(double* out, const T* x, Index n);
  void (*from_double)(T* out, const double* x, Index n);
  // The upper triangle of r <- x xᵀ, or r + x xᵀ if `add`, where x has n rows of length `depth`.
  // Entry (i, l) of x is at x[i stride + l], or at x[l stride + i] if `across`. `work` holds
  // `depth` times as many values as n, rounded up to whole panels. Entries below the diagonal of r
  // may be written. Null where BLAS does not do worse.
  void (*gram)(double* r, Index r_stride, const T* x, Index stride, bool across, Index n,
               Index depth, bool add, double* work);
};

namespace detail {
const Kernels<float>& kernels_generic_float();
const Kernels<double>& kernels_generic_double();
const Kernels<float>& kernels_avx2_float();
const Kernels<double>& kernels_avx2_double();
const Kernels<float>& kernels_avx512_float();
const Kernels<double>& kernels_avx512_double();
}  // namespace detail

}  // namespace normball
