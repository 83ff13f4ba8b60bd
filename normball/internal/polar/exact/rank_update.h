// The symmetric update that both the reduction and the back-transformation end with. Internal.
#pragma once

#include "normball/base/parallel.h"
#include "normball/internal/kernels/blas.h"
#include "normball/internal/polar/panels.h"

namespace normball::detail {

// The upper triangle of f <- f - vᵀ w - wᵀ v, by block rows.
template <class T>
void subtract_rank_2k(ConstMatrixView<T> v, ConstMatrixView<T> w, MatrixView<T> f, int threads) {
  using blas::Op;
  const Index n = f.rows, k = v.rows, blocks = panel_count(n, 256);
  parallel_for(blocks, worth_threads(n, k, n, threads), [&](Index i, int) {
    const Range rows = panel(n, blocks, i);
    if (rows.size == 0) return;
    const auto v_rows = v.block(0, rows.begin, k, rows.size);
    const auto w_rows = w.block(0, rows.begin, k, rows.size);
    blas::syr2k<T>(-1, v_rows, w_rows, 1, f.block(rows.begin, rows.begin, rows.size, rows.size));
    const Index rest = n - rows.end();
    const auto right = f.block(rows.begin, rows.end(), rows.size, rest);
    blas::gemm<T>(-1, w_rows, Op::Transpose, v.block(0, rows.end(), k, rest), Op::None, 1, right);
    blas::gemm<T>(-1, v_rows, Op::Transpose, w.block(0, rows.end(), k, rest), Op::None, 1, right);
  });
}

}  // namespace normball::detail
