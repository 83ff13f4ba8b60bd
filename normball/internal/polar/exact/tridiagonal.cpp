#include "normball/internal/polar/exact/tridiagonal.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "normball/base/parallel.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/internal/polar/exact/diagonal_mean.h"
#include "normball/internal/polar/exact/rank_update.h"
#include "normball/internal/polar/panels.h"

namespace normball::detail {
namespace {

constexpr Index panel_width = 24;   // reflectors between two updates of the trailing matrix
constexpr Index in_cache = 96;      // size below which rows are reduced one at a time
constexpr Index symv_parts = 4;     // partial sums of a large symmetric product
constexpr Index worth_parts = 256;  // size from which it is split
constexpr Index worth_team = 1024;  // ... and from which waking threads for it pays

// Where to cut n rows of an upper triangle into parts of equal area.
std::array<Index, symv_parts + 1> equal_areas(Index n, Index parts) {
  std::array<Index, symv_parts + 1> edges{};
  for (Index p = 0; p < parts; ++p) {
    const double rest = std::sqrt(1 - static_cast<double>(p) / static_cast<double>(parts));
    edges[static_cast<size_t>(p)] = n - static_cast<Index>(static_cast<double>(n) * rest);
  }
  edges[static_cast<size_t>(parts)] = n;
  return edges;
}

// y <- a x for the symmetric block of a from `first` on; x and y are indexed as a is, `partial`
// holds symv_parts times a.rows values.
template <class T>
void symmetric_times_vector(ConstMatrixView<T> a, Index first, const T* x, T* y, T* partial,
                            int threads) {
  const Index n = a.rows, size = n - first, parts = size < worth_parts ? 1 : symv_parts;
  if (parts == 1) {
    std::fill_n(y, n, T(0));
    return kernels<T>().add_symmetric_rows(y, a.data, a.stride, x, first, n, n);
  }
  const auto edges = equal_areas(size, parts);
  parallel_for(parts, size < worth_team ? 1 : threads, [&](Index p, int) {
    const Index begin = edges[static_cast<size_t>(p)], end = edges[static_cast<size_t>(p) + 1];
    T* part = partial + p * n;
    std::fill_n(part, n, T(0));
    kernels<T>().add_symmetric_rows(part, a.data, a.stride, x, first + begin, first + end, n);
  });
  std::copy_n(partial + first, size, y + first);
  for (Index p = 1; p < parts; ++p) {
    const T* part = partial + p * n;
    for (Index i = first + edges[static_cast<size_t>(p)]; i < n; ++i) y[i] += part[i];
  }
}

// Turns x into the v of the reflector I - tau v vᵀ that maps it to (e, 0, ..., 0); returns tau.
template <class T>
T make_reflector(Index n, T* x, T& e) {
  const auto& kernel = kernels<T>();
  const double alpha = x[0], tail = kernel.sum_squares(x + 1, 1, n - 1);
  e = x[0];
  x[0] = 1;
  if (tail == 0) return 0;
  const double beta = -std::copysign(std::sqrt(alpha * alpha + tail), alpha);
  kernel.scale(x + 1, 1 / (alpha - beta), n - 1);
  e = static_cast<T>(beta);
  return static_cast<T>(2 / kernel.sum_squares(x, 1, n));  // for the rounded v: stays orthogonal
}

// Reduces panel_width rows of a, from `first` on. Their reflectors V stay in a; the rows of w then
// hold W, with which the trailing matrix becomes a - Vᵀ W - Wᵀ V. The stride of w is that of a.
template <class T>
void reduce_panel(const Reflectors<T>& h, const Tridiagonal<T>& t, Index first, MatrixView<T> w,
                  T* partial, int threads) {
  const auto& kernel = kernels<T>();
  const MatrixView<T> a = h.vectors;
  T of_v[panel_width], of_w[panel_width];
  for (Index j = 0; j < panel_width; ++j) {
    const Index k = first + j, size = a.rows - k - 1;
    T* row = a.row(k) + k;
    if (j > 0) {
      for (Index i = 0; i < j; ++i) {
        of_v[i] = w(i, k);
        of_w[i] = a(first + i, k);
      }
      kernel.subtract_rows(row, a.row(first) + k, w.data + k, a.stride, of_v, of_w, j, size + 1);
    }
    const auto at = static_cast<size_t>(k);
    t.diagonal[at] = row[0];
    T* v = row + 1;
    T* out = w.row(j) + k + 1;
    h.tau[at] = make_reflector(size, v, t.off_diagonal[at]);
    symmetric_times_vector<T>(a, k + 1, a.row(k), w.row(j), partial, threads);
    if (j > 0) {
      const T *vs = a.row(first) + k + 1, *ws = w.data + k + 1;
      kernel.row_products(of_v, ws, w.stride, v, j, size);
      kernel.row_products(of_w, vs, a.stride, v, j, size);
      kernel.subtract_rows(out, vs, ws, a.stride, of_v, of_w, j, size);
    }
    const double tau = h.tau[at], shift = -0.5 * tau * tau * kernel.dot(out, v, size);
    kernel.scale(out, tau, size);
    kernel.add_scaled(out, 1, v, shift, 1, size);
  }
}

// Reduces all rows from `first` on, one at a time: where the matrix fits the cache this beats
// panels, whose products are too small for BLAS.
template <class T>
void reduce_rows(const Reflectors<T>& h, const Tridiagonal<T>& t, Index first, T* w) {
  const auto& kernel = kernels<T>();
  const MatrixView<T> a = h.vectors;
  for (Index k = first; k < a.rows - 1; ++k) {
    const Index size = a.rows - k - 1;
    const auto at = static_cast<size_t>(k);
    T* v = a.row(k) + k + 1;
    T* out = w + k + 1;
    t.diagonal[at] = a(k, k);
    h.tau[at] = make_reflector(size, v, t.off_diagonal[at]);
    std::fill_n(w, a.rows, T(0));
    kernel.add_symmetric_rows(w, a.data, a.stride, a.row(k), k + 1, a.rows, a.rows);
    const double tau = h.tau[at], shift = -0.5 * tau * tau * kernel.dot(out, v, size);
    kernel.scale(out, tau, size);
    kernel.add_scaled(out, 1, v, shift, 1, size);
    kernel.subtract_rank_2(&a(k + 1, k + 1), a.stride, v, out, size);
  }
}

}  // namespace

template <class T>
void tridiagonalize(const Reflectors<T>& h, const Tridiagonal<T>& t, Workspace& workspace,
                    int threads) {
  const Workspace::Frame frame(workspace);
  const MatrixView<T> a = h.vectors;
  const Index n = a.rows;
  const MatrixView<T> w(workspace.take<T>(panel_width * a.stride).data(), panel_width, n, a.stride);
  const auto partial = workspace.take<T>(symv_parts * n);
  const T mean = remove_mean(a);
  Index first = 0;
  for (; n - first > in_cache; first += panel_width) {
    const Index next = first + panel_width;
    reduce_panel(h, t, first, w, partial.data(), threads);
    subtract_rank_2k<T>(a.block(first, next, panel_width, n - next),
                        w.block(0, next, panel_width, n - next),
                        a.block(next, next, n - next, n - next), threads);
  }
  reduce_rows(h, t, first, partial.data());
  t.diagonal[static_cast<size_t>(n - 1)] = a(n - 1, n - 1);
  for (T& entry : t.diagonal) entry += mean;
}

template void tridiagonalize(const Reflectors<float>&, const Tridiagonal<float>&, Workspace&, int);
template void tridiagonalize(const Reflectors<double>&, const Tridiagonal<double>&, Workspace&,
                             int);

}  // namespace normball::detail
