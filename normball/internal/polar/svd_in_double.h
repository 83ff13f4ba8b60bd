#pragma once

#include <algorithm>
#include <span>

#include "normball/internal/kernels/blas.h"
#include "normball/internal/polar/exact/widened.h"
#include "normball/internal/polar/polar_solvers.h"

namespace normball::detail {

// scale x = u diag(sigma) vt, sigma descending; x itself is overwritten, and free for the result.
struct SvdInDouble {
  MatrixView<double> x, u;
  std::span<double> sigma;
  MatrixView<double> vt;
};

// In the frame of the caller.
template <class T>
SvdInDouble decompose_in_double(const PolarProblem<T>& p) {
  const Index k = std::min(p.x.rows, p.x.cols);
  const SvdInDouble d{p.workspace.template matrix<double>(p.x.rows, p.x.cols),
                      p.workspace.template matrix<double>(p.x.rows, k),
                      p.workspace.template take<double>(k),
                      p.workspace.template matrix<double>(k, p.x.cols)};
  convert(p.x, d.x);
  kernels<double>().scale(d.x.data, p.scale, d.x.size());
  blas::svd(d.x, d.u, d.sigma.data(), d.vt, p.workspace);
  return d;
}

}  // namespace normball::detail
