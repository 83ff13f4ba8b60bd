#include "normball/internal/kernels/blas.h"
#include "normball/internal/polar/exact/widened.h"
#include "normball/internal/polar/polar_solvers.h"
#include "normball/internal/polar/svd_in_double.h"

namespace normball::detail {

// In double also for float: its rounding would move directions whose singular values are small.
template <class T>
void svd_polar(const PolarProblem<T>& p) {
  const Workspace::Frame frame(p.workspace);
  const auto [x, u, sigma, vt] = decompose_in_double(p);
  Index rank = 0;
  while (rank < vt.rows && sigma[static_cast<size_t>(rank)] > p.cut() * sigma[0]) ++rank;
  blas::gemm<double>(1, ConstMatrixView<double>(u.data, u.rows, rank, u.stride), blas::Op::None,
                     ConstMatrixView<double>(vt.data, rank, vt.cols, vt.stride), blas::Op::None, 0,
                     x);
  convert(x, p.q);
}

template void svd_polar(const PolarProblem<float>&);
template void svd_polar(const PolarProblem<double>&);

}  // namespace normball::detail
