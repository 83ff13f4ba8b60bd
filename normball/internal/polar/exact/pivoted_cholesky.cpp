#include "normball/internal/polar/exact/pivoted_cholesky.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "normball/internal/kernels/blas.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/internal/polar/exact/closing.h"
#include "normball/internal/polar/short_side.h"

namespace normball::detail {
namespace {

using blas::Op;

constexpr Index panel_width = 32;  // pivots between two updates of the rest

struct Factorization {
  MatrixView<double> rest, u;
  std::span<Index> order;
  std::span<double> diagonal;  // of the rest; negative for pivots of the panel
  Index done = 0;

  // The next row of u, `at` being its place within the panel; false where the largest pivot left
  // is at most `least`.
  bool add_row(Index at, double least) {
    const auto largest = std::max_element(diagonal.begin() + done, diagonal.end());
    const double pivot = *largest;
    if (!(pivot > least)) return false;
    const Index n = rest.rows, p = largest - diagonal.begin(), count = n - done;
    double* row = u.row(done + at) + done;
    std::copy_n(rest.row(p) + done, count, row);
    if (at > 0) {
      const auto above = u.block(done, done, at, count);
      blas::gemv<double>(-1, above, Op::Transpose, above.data + (p - done), above.stride, 1, row);
    }
    kernels<double>().scale(row, 1 / std::sqrt(pivot), count);
    for (Index j = 0; j < count; ++j) {
      double& d = diagonal[static_cast<size_t>(done + j)];
      if (d < 0) {
        row[j] = 0;  // a pivot already
      } else {
        d = std::max(0.0, d - row[j] * row[j]);
      }
    }
    *largest = -1;
    pivots[at] = p;
    return true;
  }

  // Moves the panel's pivots to its front, in u and in the rest, whose part behind the panel is
  // then updated.
  void end_panel(Index count, int threads) {
    const Index n = rest.rows;
    for (Index t = 0; t < count; ++t) {
      const Index from = pivots[t], to = done + t;
      for (Index later = t + 1; later < count; ++later) {
        if (pivots[later] == to) pivots[later] = from;
      }
      std::swap(order[static_cast<size_t>(from)], order[static_cast<size_t>(to)]);
      if (from != to) {
        std::swap_ranges(rest.row(from) + done, rest.row(from) + n, rest.row(to) + done);
      }
    }
    for (Index i = 0; i < n; ++i) {
      double* row = i < done + count ? u.row(i) : nullptr;
      double* rest_row = i >= done + count ? rest.row(i) : nullptr;
      for (Index t = 0; t < count; ++t) {
        const Index from = pivots[t], to = done + t;
        if (row != nullptr) std::swap(row[from], row[to]);
        if (rest_row != nullptr) std::swap(rest_row[from], rest_row[to]);
      }
    }
    const Index next = done + count;
    if (next < n) {
      const auto behind = rest.block(next, next, n - next, n - next);
      ShortSide<double>{false, threads}.gram(-1, u.block(done, next, count, n - next), 1, behind);
      blas::mirror_upper(behind);
    }
    done = next;
    for (Index i = done; i < n; ++i) diagonal[static_cast<size_t>(i)] = rest(i, i);
  }

  Index pivots[panel_width] = {};
};

}  // namespace

Index pivoted_cholesky(MatrixView<double> r, double limit, double noise, std::span<Index> order,
                       MatrixView<double> u, Workspace& workspace, int threads) {
  const Workspace::Frame frame(workspace);
  const Index n = r.rows;
  std::iota(order.begin(), order.end(), Index{0});
  Factorization f{.rest = r, .u = u, .order = order, .diagonal = workspace.take<double>(n)};
  for (Index i = 0; i < n; ++i) f.diagonal[static_cast<size_t>(i)] = r(i, i);
  const double least = std::max(noise, limit / static_cast<double>(n));
  while (f.done < n) {
    const auto left = f.diagonal.subspan(static_cast<size_t>(f.done));
    const double largest = *std::ranges::max_element(left);
    if (largest <= least) break;
    const auto rest = r.block(f.done, f.done, n - f.done, n - f.done);
    if (largest <= limit && estimate_norm<double>(rest, false, workspace) <= limit) break;
    const Index most = std::min(panel_width, n - f.done);
    for (Index i = f.done; i < f.done + most; ++i) std::fill_n(u.row(i), n, 0.0);
    Index count = 0;
    while (count < most && f.add_row(count, least)) ++count;
    f.end_panel(count, threads);
    if (count < most) break;
  }
  return f.done;
}

}  // namespace normball::detail
