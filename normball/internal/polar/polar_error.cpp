#include <algorithm>
#include <cmath>

#include "normball/base/error.h"
#include "normball/base/parallel.h"
#include "normball/internal/kernels/blas.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/polar.h"

namespace normball {

template <class T>
PolarError polar_error(ConstMatrixView<T> x, ConstMatrixView<T> q, Workspace& workspace) {
  require_same_size("polar_error", "q", q, "x", x);
  if (x.empty()) return {};
  const SingleThreadedBlas guard;
  const Workspace::Frame frame(workspace);
  const bool wide = x.rows <= x.cols;
  const Index k = std::min(x.rows, x.cols);
  const auto gram = workspace.matrix<T>(k, k);
  const auto left = wide ? blas::Op::None : blas::Op::Transpose;
  const auto right = wide ? blas::Op::Transpose : blas::Op::None;

  PolarError error;
  blas::gemm<T>(1, q, left, q, right, 0, gram);
  for (Index i = 0; i < k; ++i) gram(i, i) -= T(1);
  error.orthogonality = l2_norm<T>(ConstMatrixView<T>(gram)) / std::sqrt(static_cast<double>(k));

  // Scaled by a power of two as in polar(), so that h neither overflows nor vanishes.
  const double max = max_abs<T>(x);
  const int exponent = max == 0 ? 0 : -std::clamp(std::ilogb(max), -1000, 1000);
  const auto scaled = workspace.matrix<T>(x.rows, x.cols);
  for_each_run(x, scaled, [&](const T* from, T* to, Index n) {
    kernels<T>().add_scaled(to, 0, from, std::ldexp(1, exponent), 1, n);
  });
  blas::gemm<T>(1, q, left, ConstMatrixView<T>(scaled), right, 0, gram);
  const double size = l2_norm<T>(ConstMatrixView<T>(gram));
  double skew = 0;
  for (Index i = 0; i < k; ++i) {
    for (Index j = i + 1; j < k; ++j) {
      const double difference = static_cast<double>(gram(i, j)) - static_cast<double>(gram(j, i));
      skew += 2 * difference * difference;
    }
  }
  error.asymmetry = size == 0 ? 0 : std::sqrt(skew) / size;
  return error;
}

template PolarError polar_error(ConstMatrixView<float>, ConstMatrixView<float>, Workspace&);
template PolarError polar_error(ConstMatrixView<double>, ConstMatrixView<double>, Workspace&);

}  // namespace normball
