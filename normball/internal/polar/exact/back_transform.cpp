#include <algorithm>
#include <type_traits>

#include "normball/base/parallel.h"
#include "normball/internal/kernels/blas.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/internal/polar/exact/rank_update.h"
#include "normball/internal/polar/exact/tridiagonal.h"
#include "normball/internal/polar/exact/widened.h"
#include "normball/internal/polar/panels.h"

namespace normball::detail {
namespace {

using blas::Op;

// Wide blocks make fast products, but the triangular factor costs block² times n.
constexpr Index most_reflectors = 64;
constexpr Index most_rows_apart = 12;
Index block_size(Index n) { return n <= 96 ? 16 : n <= 600 ? 32 : most_reflectors; }

// Consecutive reflectors as one: I - vᵀ a with a = t v and an upper triangular t.
template <class T>
struct BlockReflector {
  MatrixView<T> v, a;  // count x size; v is unit upper trapezoidal

  BlockReflector(const Reflectors<T>& h, Index first, Index count, Workspace& workspace)
      : v(workspace.matrix<T>(count, h.vectors.rows - first - 1)),
        a(workspace.matrix<T>(count, v.cols)) {
    for (Index k = 0; k < count; ++k) {
      std::fill_n(v.row(k), k, T(0));
      std::copy_n(h.vectors.row(first + k) + first + 1 + k, v.cols - k, v.row(k) + k);
    }
    const Workspace::Frame frame(workspace);
    const auto products = workspace.matrix<T>(count, count),
               t_transpose = workspace.matrix<T>(count, count);
    blas::syrk<T>(1, v, Op::None, 0, products);
    fill(t_transpose, T(0));
    for (Index j = 0; j < count; ++j) {
      const T tau = h.tau[static_cast<size_t>(first + j)];
      T* column = t_transpose.row(j);
      for (Index k = 0; k < j; ++k) {
        const T scale = -tau * products(k, j);
        for (Index i = 0; i <= k; ++i) column[i] += scale * t_transpose(k, i);
      }
      column[j] = tau;
    }
    blas::gemm<T>(1, t_transpose, Op::Transpose, v, Op::None, 0, a);
  }
};

// out <- v f for symmetric f, by block columns.
template <class T>
void times_symmetric(ConstMatrixView<T> v, ConstMatrixView<T> f, MatrixView<T> out, int threads) {
  const Index n = f.rows, k = v.rows, blocks = panel_count(n, 256);
  parallel_for(blocks, worth_threads(k, n, n, threads), [&](Index i, int) {
    const Range cols = panel(n, blocks, i);
    if (cols.size == 0) return;
    const Index rest = n - cols.end();
    const auto to = out.block(0, cols.begin, k, cols.size);
    blas::symm_right<T>(1, v.block(0, cols.begin, k, cols.size),
                        f.block(cols.begin, cols.begin, cols.size, cols.size), 0, to);
    if (cols.begin > 0) {
      blas::gemm<T>(1, v.block(0, 0, k, cols.begin), Op::None,
                    f.block(0, cols.begin, cols.begin, cols.size), Op::None, 1, to);
    }
    if (rest > 0) {
      blas::gemm<T>(1, v.block(0, cols.end(), k, rest), Op::None,
                    f.block(cols.begin, cols.end(), cols.size, rest), Op::Transpose, 1, to);
    }
  });
}

// The symmetric matrix y aᵀ with sums in double: their rounding would be half of the error of the
// whole transformation.
template <class T>
void symmetric_product(ConstMatrixView<T> y, ConstMatrixView<T> a, MatrixView<T> out,
                       Workspace& workspace) {
  if constexpr (std::is_same_v<T, double>) {
    blas::gemm<double>(1, y, Op::None, a, Op::Transpose, 0, out);
  } else {
    const Workspace::Frame frame(workspace);
    const auto wide_y = workspace.matrix<double>(y.rows, y.cols),
               wide_a = workspace.matrix<double>(a.rows, a.cols);
    convert(y, wide_y);
    convert(a, wide_a);
    double products[most_reflectors];
    for (Index i = 0; i < out.rows; ++i) {
      kernels<double>().row_products(products, wide_a.data, wide_a.stride, wide_y.row(i), i + 1,
                                     y.cols);
      for (Index j = 0; j <= i; ++j) out(i, j) = out(j, i) = static_cast<T>(products[j]);
    }
  }
}

// f <- (I - vᵀ a) f (I - vᵀ a)ᵀ as f - vᵀ y - yᵀ v with y = a f - (a f aᵀ) v / 2.
template <class T>
void two_sided_update(const BlockReflector<T>& h, MatrixView<T> f, Workspace& workspace,
                      int threads) {
  const Workspace::Frame frame(workspace);
  const Index count = h.v.rows;
  const auto y = workspace.matrix<T>(count, f.rows), inner = workspace.matrix<T>(count, count);
  times_symmetric<T>(h.a, f, y, threads);
  symmetric_product<T>(y, h.a, inner, workspace);
  // inner is symmetric; the transposed product is the one without malloc (see blas::gemm)
  blas::gemm<T>(T(-0.5), inner, Op::Transpose, h.v, Op::None, 1, y);
  subtract_rank_2k<T>(h.v, y, f, threads);
}

// c <- c (I - vᵀ a)ᵀ, by block rows.
template <class T>
void one_sided_update(const BlockReflector<T>& h, MatrixView<T> c, Workspace& workspace,
                      int threads) {
  const Workspace::Frame frame(workspace);
  constexpr Index chunk = 256;
  const Index count = h.v.rows;
  const auto products = workspace.matrix<T>(count, c.rows);
  parallel_for((c.rows + chunk - 1) / chunk, worth_threads(c.rows, count, c.cols, threads),
               [&](Index i, int) {
                 const Index begin = i * chunk, rows = std::min(chunk, c.rows - begin);
                 const auto part = c.row_range(begin, begin + rows);
                 const auto ac = products.block(0, begin, count, rows);
                 blas::gemm<T>(1, h.a, Op::None, part, Op::Transpose, 0, ac);
                 blas::gemm<T>(-1, ac, Op::Transpose, h.v, Op::None, 1, part);
               });
}

// z <- z Hᵀ one reflector at a time: for few rows, blocks cost more than they save.
template <class T>
void apply_reflectors(const Reflectors<T>& h, MatrixView<T> z) {
  T products[most_rows_apart];
  for (Index k = h.vectors.rows - 2; k >= 0; --k) {
    const Index size = h.vectors.rows - k - 1;
    const T* v = h.vectors.row(k) + k + 1;
    T* rows = z.data + k + 1;
    kernels<T>().row_products(products, rows, z.stride, v, z.rows, size);
    for (Index i = 0; i < z.rows; ++i) {
      const double factor = -static_cast<double>(h.tau[static_cast<size_t>(k)] * products[i]);
      kernels<T>().add_scaled(rows + i * z.stride, 1, v, factor, 1, size);
    }
  }
}

}  // namespace

template <class T>
void back_transform(const Reflectors<T>& h, MatrixView<T> f, double centre, MatrixView<T> z,
                    Workspace& workspace, int threads) {
  const Index n = h.vectors.rows, reflectors = n - 1;
  // Few rows are not worth the larger blocks.
  const Index block = f.rows > 0 ? block_size(n) : std::min<Index>(block_size(n), 16);
  if (reflectors < 1) return;
  if (f.rows == 0 && z.rows <= most_rows_apart) return apply_reflectors(h, z);
  const T taken = static_cast<T>(centre);
  for (Index i = 0; i < f.rows; ++i) f(i, i) -= taken;
  for (Index first = (reflectors - 1) / block * block; first >= 0; first -= block) {
    const Workspace::Frame frame(workspace);
    const Index count = std::min(block, reflectors - first), begin = first + 1, size = n - begin;
    const BlockReflector<T> part(h, first, count, workspace);
    if (f.rows > 0) {
      two_sided_update(part, f.block(begin, begin, size, size), workspace, threads);
      one_sided_update(part, f.block(0, begin, begin, size), workspace, threads);
    }
    if (z.rows > 0) one_sided_update(part, z.block(0, begin, z.rows, size), workspace, threads);
  }
  for (Index i = 0; i < f.rows; ++i) f(i, i) += taken;
}

template void back_transform(const Reflectors<float>&, MatrixView<float>, double, MatrixView<float>,
                             Workspace&, int);
template void back_transform(const Reflectors<double>&, MatrixView<double>, double,
                             MatrixView<double>, Workspace&, int);

}  // namespace normball::detail
