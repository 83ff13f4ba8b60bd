#include "normball/internal/polar/exact/widened.h"

#include <type_traits>

#include "normball/base/parallel.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/internal/polar/panels.h"

namespace normball::detail {
namespace {

using blas::Op;

constexpr Index chunk = 128;  // of the long side, in double at a time

// body(panel, range, piece of x in double) for the pieces of the long side, in panels that depend
// on the shape alone.
template <class T, class Body>
void for_each_piece(const ShortSide<T>& side, ConstMatrixView<T> x, Index rows,
                    Workspace& workspace, const Body& body) {
  const Workspace::Frame frame(workspace);
  const Index length = side.length(x), count = panel_count(length, 2 * chunk);
  const Index n = side.size(x);
  const auto buffers = workspace.matrix<double>(count, chunk * n);
  parallel_for(count, worth_threads(rows, n, length, side.threads), [&](Index p, int) {
    const Range all = panel(length, count, p);
    const Index pieces = (all.size + chunk - 1) / chunk;
    for (Index i = 0; i < pieces; ++i) {
      Range range = panel(all.size, pieces, i);
      range.begin += all.begin;
      const auto from = side.stretch(x, range.begin, range.size);
      if constexpr (std::is_same_v<T, double>) {
        body(p, range, from);
      } else {
        const MatrixView<double> piece(buffers.row(p), from.rows, from.cols);
        convert(from, piece);
        body(p, range, piece);
      }
    }
  });
}

// r <- x xᵀ as the sum over one or two parts of the long side: whole triangles at a time are what
// BLAS is fastest at.
void gram_of_parts(const ShortSide<float>& side, ConstMatrixView<float> x, MatrixView<double> r,
                   Workspace& workspace) {
  constexpr Index most = 192, worth_two = 512;
  const Workspace::Frame frame(workspace);
  const Index n = r.rows, length = side.length(x), count = length >= worth_two ? 2 : 1;
  const Index padded = (n + gram_panel - 1) / gram_panel * gram_panel;
  const auto buffers = workspace.matrix<double>(count, padded * std::min(length, most));
  const auto second = workspace.matrix<double>(count == 2 ? n : 0, n);
  const Op op = side.left ? Op::None : Op::Transpose;
  const auto gram = kernels<float>().gram;
  parallel_for(count, worth_threads(n, length, n, side.threads), [&](Index p, int) {
    const MatrixView<double> to = p == 0 ? r : second;
    const Range all = panel(length, count, p);
    const Index pieces = (all.size + most - 1) / most;
    for (Index i = 0; i < pieces; ++i) {
      const Range range = panel(all.size, pieces, i);
      const auto from = side.stretch(x, all.begin + range.begin, range.size);
      if (gram != nullptr) {
        gram(to.data, to.stride, from.data, from.stride, !side.left, n, range.size, i > 0,
             buffers.row(p));
        continue;
      }
      const MatrixView<double> piece(buffers.row(p), from.rows, from.cols);
      convert(from, piece);
      blas::syrk<double>(1, piece, op, i == 0 ? 0 : 1, to);
    }
  });
  for (Index i = 0; i < second.rows; ++i) {
    kernels<double>().add_scaled(r.row(i) + i, 1, second.row(i) + i, 1, 1, n - i);
  }
}

}  // namespace

void gram_in_double(const ShortSide<float>& side, ConstMatrixView<float> x, MatrixView<double> r,
                    Workspace& workspace) {
  constexpr Index worth_blocks = 512;  // size from which blocks of r are shared out, not parts of x
  const Index n = side.size(x), length = side.length(x);
  if (n < worth_blocks) return gram_of_parts(side, x, r, workspace);
  constexpr Index most = 512;  // of the long side at a time, so that it stays in the cache
  const Workspace::Frame frame(workspace);
  const ShortSide<double> wide{side.left, side.threads};
  const Index pieces = (length + most - 1) / most;
  const auto buffer = workspace.take<double>(n * std::min(length, most));
  for (Index i = 0; i < pieces; ++i) {
    const Range range = panel(length, pieces, i);
    const auto from = side.stretch(x, range.begin, range.size);
    const MatrixView<double> piece(buffer.data(), from.rows, from.cols);
    const Index count = panel_count(from.rows, 64);
    parallel_for(count, worth_threads(r.rows, range.size, 64, side.threads), [&](Index p, int) {
      const Range rows = panel(from.rows, count, p);
      convert(from.row_range(rows.begin, rows.end()), piece.row_range(rows.begin, rows.end()));
    });
    wide.gram(1, piece, i == 0 ? 0 : 1, r);
  }
}

template <class T>
void project_on(const ShortSide<T>& side, ConstMatrixView<double> u, ConstMatrixView<T> x,
                MatrixView<double> part, Workspace& workspace) {
  const ShortSide<double> wide{side.left, 1};
  for_each_piece(
      side, x, u.rows, workspace, [&](Index, Range range, ConstMatrixView<double> piece) {
        wide.transform(1, u, Op::None, piece, 0, wide.stretch(part, range.begin, range.size));
      });
}

void subtract_products(const ShortSide<float>& side, ConstMatrixView<double> v,
                       ConstMatrixView<double> part, ConstMatrixView<float> x,
                       MatrixView<float> out, Workspace& workspace) {
  constexpr Index most = 256;  // of the long side, so that `part` stays in the cache
  const Workspace::Frame frame(workspace);
  const auto& kernel = kernels<float>();
  const Index n = v.cols, count = v.rows, length = side.length(x);
  const Index panels = panel_count(length, most);
  const auto columns = workspace.matrix<double>(side.left ? n : 0, count);
  for (Index i = 0; i < columns.rows; ++i) {
    for (Index k = 0; k < count; ++k) columns(i, k) = v(k, i);
  }
  parallel_for(panels, worth_threads(count, n, length, side.threads), [&](Index p, int) {
    const Range all = panel(length, panels, p);
    if (!side.left) {
      for (Index l = all.begin; l < all.end(); ++l) {
        kernel.subtract_wide_rows(out.row(l), x.row(l), v.data, v.stride, part.row(l), count, n);
      }
      return;
    }
    for (Index l = all.begin; l < all.end(); l += most) {
      const Index size = std::min(most, all.end() - l);
      for (Index i = 0; i < n; ++i) {
        kernel.subtract_wide_rows(out.row(i) + l, x.row(i) + l, part.data + l, part.stride,
                                  columns.row(i), count, size);
      }
    }
  });
}

template <class T>
void project_out(const ShortSide<T>& side, ConstMatrixView<T> out, MatrixView<double> part,
                 Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const ShortSide<double> wide{side.left, 1};
  const Index k = side.left ? part.rows : part.cols, n = side.size(out);
  const Index panels = panel_count(side.length(out), 2 * chunk);
  const auto leaks = workspace.matrix<double>(panels * k, n);
  const auto leak_of = [&](Index p) { return leaks.row_range(p * k, (p + 1) * k); };
  std::fill_n(leaks.data, leaks.size(), 0.0);
  for_each_piece(side, out, k, workspace, [&](Index p, Range range, ConstMatrixView<double> piece) {
    wide.cross_gram(wide.stretch(part, range.begin, range.size), piece, 1, leak_of(p));
  });
  for (Index p = 1; p < panels; ++p) {
    kernels<double>().add_scaled(leaks.data, 1, leak_of(p).data, 1, 1, k * n);
  }
  for_each_piece(side, out, k, workspace, [&](Index, Range range, ConstMatrixView<double> piece) {
    wide.transform(-1, leak_of(0), Op::None, piece, 1, wide.stretch(part, range.begin, range.size));
  });
}

void multiply_in_double(const ShortSide<float>& side, ConstMatrixView<double> s,
                        ConstMatrixView<float> x, MatrixView<float> q, Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const ShortSide<double> wide{side.left, 1};
  const Index panels = panel_count(side.length(x), 2 * chunk);
  const auto buffers = workspace.matrix<double>(panels, chunk * s.rows);
  for_each_piece(side, x, s.rows, workspace,
                 [&](Index p, Range range, ConstMatrixView<double> piece) {
                   const MatrixView<double> to(buffers.row(p), piece.rows, piece.cols);
                   wide.multiply(s, piece, 0, to);
                   convert(to, side.stretch(q, range.begin, range.size));
                 });
}

#define NORMBALL_INSTANTIATE(T)                                                              \
  template void project_on(const ShortSide<T>&, ConstMatrixView<double>, ConstMatrixView<T>, \
                           MatrixView<double>, Workspace&);                                  \
  template void project_out(const ShortSide<T>&, ConstMatrixView<T>, MatrixView<double>,     \
                            Workspace&);
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball::detail
