// The solvers behind polar(), one file each. Internal.
#pragma once

#include <algorithm>
#include <limits>

#include "normball/internal/kernels/kernels.h"
#include "normball/polar.h"

namespace normball::detail {

// x is not zero; scale brings its largest entry into [1, 2).
template <class T>
struct PolarProblem {
  ConstMatrixView<T> x;
  double scale;
  MatrixView<T> q;
  Workspace& workspace;
  T* state;
  int threads;

  // Singular values up to cut() times the largest are rounding and count as zero.
  double cut() const {
    return static_cast<double>(std::max(x.rows, x.cols)) *
           static_cast<double>(std::numeric_limits<T>::epsilon());
  }
  void scale_into(MatrixView<T> to, double factor, double more = 1) const {
    for_each_run(x, to, [=](const T* from, T* out, Index n) {
      kernels<T>().add_scaled(out, 0, from, factor, more, n);
    });
  }
  // x, or a scaled copy of it in `spare` where squares of its entries could overflow or vanish.
  ConstMatrixView<T> with_safe_squares(MatrixView<T> spare) const {
    if (scale >= 1e-6 && scale <= 1e6) return x;
    scale_into(spare, scale);
    return spare;
  }
};

template <class T>
void exact_polar(const PolarProblem<T>& problem);
template <class T>
void damped_polar(const DampedPolar& solver, const PolarProblem<T>& problem);
template <class T>
void clipped_polar(const ClippedPolar& solver, const PolarProblem<T>& problem);
template <class T>
void svd_polar(const PolarProblem<T>& problem);
template <class T>
void newton_schulz_polar(const NewtonSchulz& solver, const PolarProblem<T>& problem);
template <class T>
void power_iteration_polar(const PowerIteration& solver, const PolarProblem<T>& problem);

}  // namespace normball::detail
