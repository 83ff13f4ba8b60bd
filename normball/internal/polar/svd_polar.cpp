#include <algorithm>

#include "normball/internal/kernels/blas.h"
#include "normball/internal/polar/exact/widened.h"
#include "normball/internal/polar/polar_solvers.h"

namespace normball::detail {

// In double also for float: its rounding would move directions whose singular values are small.
template <class T>
void svd_polar(const PolarProblem<T>& p) {
  const Workspace::Frame frame(p.workspace);
  const Index k = std::min(p.x.rows, p.x.cols);
  const auto x = p.workspace.template matrix<double>(p.x.rows, p.x.cols);
  convert(p.x, x);
  kernels<double>().scale(x.data, p.scale, x.size());
  const auto u = p.workspace.template matrix<double>(p.x.rows, k);
  const auto vt = p.workspace.template matrix<double>(k, p.x.cols);
  const auto sigma = p.workspace.template take<double>(k);
  blas::svd(x, u, sigma.data(), vt, p.workspace);
  Index rank = 0;
  while (rank < k && sigma[static_cast<size_t>(rank)] > p.cut() * sigma[0]) ++rank;
  blas::gemm<double>(1, ConstMatrixView<double>(u.data, u.rows, rank, u.stride), blas::Op::None,
                     ConstMatrixView<double>(vt.data, rank, vt.cols, vt.stride), blas::Op::None, 0,
                     x);
  convert(x, p.q);
}

template void svd_polar(const PolarProblem<float>&);
template void svd_polar(const PolarProblem<double>&);

}  // namespace normball::detail
