#include "normball/internal/polar/exact/inverse_sqrt.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "normball/internal/kernels/kernels.h"

namespace normball::detail {
namespace {

// The inverse of a tridiagonal matrix is semiseparable: right of the diagonal, each row of
// G = weight (T + c)⁻¹ is a multiple (`ratio`) of the next one. All is taken from one factorization
// T + c = L D Lᵀ with recursions that add positive terms only: mixing forward and backward pivots
// gives entries of different perturbed matrices, and an error of ‖G‖ in every direction.
template <class T, class F>
void inverse_generators(const Tridiagonal<T>& t, double c, double weight, double* pivots,
                        F* diagonal, F* ratio) {
  const Index n = t.size();
  const T *d = t.diagonal.data(), *e = t.off_diagonal.data();
  const double least = c / 4;  // pivots exceed c where T >= 0; noise must not make them negative
  pivots[0] = std::max(least, static_cast<double>(d[0]) + c);
  for (Index i = 1; i < n; ++i) {
    const double off = e[i - 1];
    pivots[i] = std::max(least, static_cast<double>(d[i]) + c - off * off / pivots[i - 1]);
  }
  double g = weight / pivots[n - 1];
  diagonal[n - 1] = static_cast<F>(g);
  ratio[n - 1] = 0;
  for (Index i = n - 2; i >= 0; --i) {
    const double l = static_cast<double>(e[i]) / pivots[i];
    g = weight / pivots[i] + l * l * g;
    diagonal[i] = static_cast<F>(g);
    ratio[i] = static_cast<F>(-l);
  }
}

}  // namespace

template <class T, class F>
void inverse_sqrt(const Tridiagonal<T>& t, double shift, const Quadrature& q, MatrixView<F> f,
                  Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const Index n = t.size();
  const auto diagonals = workspace.matrix<F>(q.count, n), ratios = workspace.matrix<F>(q.count, n);
  const auto rows = workspace.matrix<F>(q.count, n);  // row j of every pole's inverse
  const auto ends = workspace.take<Index>(q.count);   // what lies beyond has decayed to nothing
  const auto pivots = workspace.take<double>(n);
  for (int p = 0; p < q.count; ++p) {
    inverse_generators(t, q.pole[p] + shift, q.weight[p], pivots.data(), diagonals.row(p),
                       ratios.row(p));
    ends[static_cast<size_t>(p)] = n;
  }
  const F negligible = std::numeric_limits<F>::min() * F(1e8);
  for (Index j = n - 1; j >= 0; --j) {
    F* out = f.row(j);
    std::fill(out + j, out + n, F(0));
    for (int p = 0; p < q.count; ++p) {
      F* g = rows.row(p);
      Index& end = ends[static_cast<size_t>(p)];
      g[j] = diagonals(p, j);
      out[j] += g[j];
      kernels<F>().scale_and_add(g + j + 1, ratios(p, j), out + j + 1, end - j - 1);
      while (end > j + 1 && std::abs(g[end - 1]) < negligible) --end;
    }
  }
}

template void inverse_sqrt(const Tridiagonal<float>&, double, const Quadrature&, MatrixView<float>,
                           Workspace&);
template void inverse_sqrt(const Tridiagonal<double>&, double, const Quadrature&, MatrixView<float>,
                           Workspace&);
template void inverse_sqrt(const Tridiagonal<double>&, double, const Quadrature&,
                           MatrixView<double>, Workspace&);

}  // namespace normball::detail
