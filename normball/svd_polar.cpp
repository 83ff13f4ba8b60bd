#include <algorithm>
#include <limits>

#include "normball/blas.h"
#include "normball/polar_solvers.h"

namespace normball::detail {

template <class T>
void svd_polar(const PolarProblem<T>& p) {
  const Workspace::Frame frame(p.workspace);
  const Index k = std::min(p.x.rows, p.x.cols);
  const auto x = p.workspace.template matrix<T>(p.x.rows, p.x.cols);
  p.scale_into(x, p.scale);
  const auto u = p.workspace.template matrix<T>(p.x.rows, k);
  const auto vt = p.workspace.template matrix<T>(k, p.x.cols);
  const auto sigma = p.workspace.template take<T>(k);
  blas::svd(x, u, sigma.data(), vt, p.workspace);
  // Below rounding of the largest, a singular value is zero and its vectors are noise.
  const T threshold = std::numeric_limits<T>::epsilon() * sigma[0];
  Index rank = 0;
  while (rank < k && sigma[static_cast<size_t>(rank)] > threshold) ++rank;
  blas::gemm<T>(1, ConstMatrixView<T>(u.data, u.rows, rank, u.stride), blas::Op::None,
                ConstMatrixView<T>(vt.data, rank, vt.cols, vt.stride), blas::Op::None, 0, p.q);
}

template void svd_polar(const PolarProblem<float>&);
template void svd_polar(const PolarProblem<double>&);

}  // namespace normball::detail
