#include "normball/internal/polar/short_side.h"

#include "normball/base/parallel.h"
#include "normball/internal/polar/panels.h"

namespace normball::detail {

using blas::Op;

namespace {
Op other(Op op) { return op == Op::None ? Op::Transpose : Op::None; }
}  // namespace

template <class T>
template <class Body>
void ShortSide<T>::for_each_panel(ConstMatrixView<T> x, Index rows, const Body& body) const {
  const Index count = std::min<Index>(4, panel_count(length(x), 64 + size(x) / 4));
  parallel_for(count, worth_threads(rows, size(x), length(x), threads), [&](Index i, int) {
    const Range range = panel(length(x), count, i);
    if (range.size > 0) body(range);
  });
}

template <class T>
void ShortSide<T>::gram(T alpha, ConstMatrixView<T> x, T beta, MatrixView<T> r) const {
  const Index n = r.rows, blocks = n >= 1536 ? 4 : n >= 192 ? 2 : 1;
  const Op op = left ? Op::None : Op::Transpose;
  const int team = worth_threads(n, length(x), n, threads);
  parallel_for(blocks * (blocks + 1) / 2, team, [&](Index task, int) {
    Index j = 0;  // task counts the pairs i <= j
    while ((j + 1) * (j + 2) / 2 <= task) ++j;
    const Range rows = panel(n, blocks, task - j * (j + 1) / 2), cols = panel(n, blocks, j);
    const auto x_rows = part(x, rows.begin, rows.size), x_cols = part(x, cols.begin, cols.size);
    const auto to = r.block(rows.begin, cols.begin, rows.size, cols.size);
    if (rows.begin == cols.begin) {
      blas::syrk<T>(alpha, x_rows, op, beta, to);
    } else {
      blas::gemm<T>(alpha, x_rows, op, x_cols, other(op), beta, to);
    }
  });
}

template <class T>
void ShortSide<T>::cross_gram(ConstMatrixView<T> y, ConstMatrixView<T> x, T beta,
                              MatrixView<T> c) const {
  const Op op = left ? Op::None : Op::Transpose;
  const Index count = panel_count(c.cols, 128);
  parallel_for(count, worth_threads(c.rows, length(x), c.cols, threads), [&](Index i, int) {
    const Range range = panel(c.cols, count, i);
    blas::gemm<T>(1, y, op, part(x, range.begin, range.size), other(op), beta,
                  c.block(0, range.begin, c.rows, range.size));
  });
}

template <class T>
void ShortSide<T>::multiply(ConstMatrixView<T> s, ConstMatrixView<T> x, T beta,
                            MatrixView<T> out) const {
  for_each_panel(x, size(out), [&](Range range) {
    const auto from = stretch(x, range.begin, range.size);
    const auto to = stretch(out, range.begin, range.size);
    if (left) {
      blas::symm_left<T>(1, s, from, beta, to);
    } else {
      blas::symm_right<T>(1, from, s, beta, to);
    }
  });
}

template <class T>
void ShortSide<T>::transform(T alpha, ConstMatrixView<T> a, Op op, ConstMatrixView<T> x, T beta,
                             MatrixView<T> out) const {
  for_each_panel(x, size(out), [&](Range range) {
    const auto from = stretch(x, range.begin, range.size);
    const auto to = stretch(out, range.begin, range.size);
    if (left) {
      blas::gemm<T>(alpha, a, op, from, Op::None, beta, to);
    } else {
      blas::gemm<T>(alpha, from, Op::None, a, other(op), beta, to);
    }
  });
}

template struct ShortSide<float>;
template struct ShortSide<double>;

}  // namespace normball::detail
