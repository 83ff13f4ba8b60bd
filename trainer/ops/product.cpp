// Both libraries cut a threaded product by the number of threads, and then sum in another order at
// some sizes. So products are cut here, by shape alone, and each piece is computed on one thread.
#include "trainer/ops/product.h"

#include <oneapi/dnnl/dnnl.h>

#include <stdexcept>

#include "normball/base/panels.h"
#include "normball/base/parallel.h"

namespace normball::trainer::ops {
namespace {

void multiply(ConstMatrixView<float> a, Op op_a, ConstMatrixView<float> b, Op op_b, float beta,
              MatrixView<float> c) {
  const auto letter = [](Op op) { return op == Op::None ? 'N' : 'T'; };
  const Index inner = op_a == Op::None ? a.cols : a.rows;
  const auto status = dnnl_sgemm(letter(op_a), letter(op_b), c.rows, c.cols, inner, 1, a.data,
                                 a.stride, b.data, b.stride, beta, c.data, c.stride);
  if (status != dnnl_success) throw std::runtime_error("[product] oneDNN failed");
}

void multiply(ConstMatrixView<double> a, Op op_a, ConstMatrixView<double> b, Op op_b, double beta,
              MatrixView<double> c) {
  blas::gemm<double>(1, a, op_a, b, op_b, beta, c);
}

struct Grid {
  Index rows = 1, cols = 1;
};

// Pieces of at most 512x512, for which packing the operands again costs at most a few percent, and
// eight of them or more where that leaves sides of 128.
Grid grid_of(Index rows, Index cols) {
  constexpr Index most = 512, least = 128, enough = 8;
  Grid grid{(rows + most - 1) / most, (cols + most - 1) / most};
  while (grid.rows * grid.cols < enough) {
    const Index height = rows / grid.rows, width = cols / grid.cols;
    if (std::max(height, width) < 2 * least) break;
    (height >= width ? grid.rows : grid.cols) *= 2;
  }
  return grid;
}

// The rows [begin, end) of op(x).
template <class T>
ConstMatrixView<T> rows_of(ConstMatrixView<T> x, Op op, Panel range) {
  return op == Op::None ? x.block(range.begin, 0, range.size, x.cols)
                        : x.block(0, range.begin, x.rows, range.size);
}

template <class T>
void in_pieces(ConstMatrixView<T> a, Op op_a, ConstMatrixView<T> b, Op op_b, T beta,
               MatrixView<T> c) {
  if (c.rows == 0 || c.cols == 0) return;
  const Index inner = op_a == Op::None ? a.cols : a.rows;
  const int threads = worth_threads(c.rows, inner, c.cols, default_threads());
  const Grid grid = grid_of(c.rows, c.cols);
  const Op op_columns = op_b == Op::None ? Op::Transpose : Op::None;
  parallel_for(grid.rows * grid.cols, threads, [&](Index i, int) {
    const auto rows = panel(c.rows, grid.rows, i / grid.cols),
               cols = panel(c.cols, grid.cols, i % grid.cols);
    if (rows.size == 0 || cols.size == 0) return;
    multiply(rows_of(a, op_a, rows), op_a, rows_of(b, op_columns, cols), op_b, beta,
             c.block(rows.begin, cols.begin, rows.size, cols.size));
  });
}

}  // namespace

void product(ConstMatrixView<float> a, Op op_a, ConstMatrixView<float> b, Op op_b, float beta,
             MatrixView<float> c) {
  in_pieces(a, op_a, b, op_b, beta, c);
}

void product(ConstMatrixView<double> a, Op op_a, ConstMatrixView<double> b, Op op_b, double beta,
             MatrixView<double> c) {
  in_pieces(a, op_a, b, op_b, beta, c);
}

}  // namespace normball::trainer::ops
