// Passes over memory: reductions and updates of contiguous runs, compiled for several instruction
// sets and chosen once at run time.
#pragma once

#include <type_traits>

#include "normball/internal/kernels/kernels_variant.h"
#include "normball/internal/kernels/variants.h"
#include "normball/matrix_view.h"

namespace normball {

// The table of the chosen variant.
template <class T>
const Kernels<T>& kernels();

// The contiguous runs of a view: one for a dense matrix, else one a row. visit(offset, length) gets
// the offset in elements from the first one.
template <class T, class Visit>
void for_each_run(MatrixView<T> view, const Visit& visit) {
  if (view.empty()) return;
  if (view.contiguous()) {
    visit(Index{0}, view.size());
  } else {
    for (Index i = 0; i < view.rows; ++i) visit(i * view.stride, view.cols);
  }
}

// As above for two views of the same size that may have different strides.
template <class A, class B, class Visit>
void for_each_run(MatrixView<A> a, MatrixView<B> b, const Visit& visit) {
  if (a.empty()) return;
  if (a.contiguous() && b.contiguous()) {
    visit(a.data, b.data, a.size());
  } else {
    for (Index i = 0; i < a.rows; ++i) visit(a.row(i), b.row(i), a.cols);
  }
}

template <class T>
bool all_finite(MatrixView<T> x) {
  bool finite = true;
  for_each_run(x, [&](Index at, Index n) {
    finite = finite && kernels<std::remove_const_t<T>>().all_finite(x.data + at, n);
  });
  return finite;
}

template <class T>
double sum_abs(ConstMatrixView<T> x) {
  double sum = 0;
  for_each_run(x, [&](Index at, Index n) { sum += kernels<T>().sum_abs(x.data + at, n); });
  return sum;
}

template <class T>
double max_abs(ConstMatrixView<T> x) {
  double max = 0;
  for_each_run(x, [&](Index at, Index n) {
    const double run = kernels<T>().max_abs(x.data + at, n);
    if (run > max) max = run;
  });
  return max;
}

template <class T>
double dot(ConstMatrixView<T> x, ConstMatrixView<T> y) {
  double sum = 0;
  for_each_run(x, y, [&](const T* a, const T* b, Index n) { sum += kernels<T>().dot(a, b, n); });
  return sum;
}

// The Euclidean norm of a run without overflow or underflow.
template <class T>
double l2_norm(const T* x, Index n);

// The Euclidean norm of a matrix without overflow or underflow.
template <class T>
double l2_norm(ConstMatrixView<T> x);

// sqrt(a^2 + b^2) for a, b >= 0 without overflow or underflow.
double combine_l2(double a, double b);

template <class T>
void copy(ConstMatrixView<T> from, MatrixView<T> to);

template <class T>
void fill(MatrixView<T> x, T value);

// x / length as (a x) b with two factors in range, however small the length is. Zero for length 0.
struct Reciprocal {
  double a = 0;
  double b = 0;
};
Reciprocal reciprocal(double length);

}  // namespace normball
