// The error of P x in float is rounding times ‖P‖ ‖x‖. So the ends of the spectrum are treated
// apart: the largest singular values are brought down to τ, x' = (I - uᵀ s u) x, which leaves the
// polar factor as it is, and the smallest ones are solved in double. What remains is a matrix of
// small condition number, for which H f(T) Hᵀ and its product with x' are exact enough in float.
#include "normball/internal/polar/exact/graded.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "normball/internal/kernels/kernels.h"
#include "normball/internal/polar/exact/inverse_sqrt.h"
#include "normball/internal/polar/exact/small_end.h"
#include "normball/internal/polar/exact/spectrum.h"
#include "normball/internal/polar/exact/widened.h"

namespace normball::detail {
namespace {

using blas::Op;

// Numbers of directions at the ends, and the eigenvalues between which float works.
struct Ends {
  Index top, small;  // `small` includes those that count as zero
  double low, high;
  bool narrow;  // the top can be brought down in float

  // Where the largest are brought: the lower, the less rounding they suffer.
  double tau() const { return std::pow(low * high, 0.25); }
};

// The candidates for the ends: eigenvalues on a grid from the largest downwards, relative to it,
// and what float leaves between two of them.
class EndGrid {
 public:
  static constexpr size_t last = sturm_shifts - 1;

  explicit EndGrid(const GradedGram& gram) : n_(static_cast<double>(gram.t.size())) {
    const double decades = std::log(gram.low / gram.high);
    for (size_t s = 0; s <= last; ++s) {
      shifts[s] = std::exp(decades * static_cast<double>(s) / static_cast<double>(last));
    }
    counts = counts_below(gram.t, gram.high, shifts);
    for (size_t s = 0; s < last; ++s) {
      const auto between = static_cast<double>(counts[s] - counts[s + 1]);
      inverses_[s + 1] = inverses_[s] + between / shifts[s + 1];
      nuclear_ += between * std::sqrt(shifts[s + 1]);
    }
  }

  Index top(size_t t) const { return t == 0 ? 0 : static_cast<Index>(n_) - counts[t]; }

  // Whether float is exact enough where the eigenvalues in [shifts[s], shifts[t]] are left to it.
  // The error of P is that of its transformation: in proportion to the mean square of its
  // eigenvalues where rounding spreads, and to the largest where it does not. The largest
  // direction of x has all of it, which counts in <x, q> where that outweighs the others.
  bool suits(size_t t, size_t s) const {
    constexpr double spread = 7, single = 7, most_error = 1.5e-4;
    constexpr double in_pairing = 0.34, most_pairing = 6e-6;
    const double growth = std::sqrt(std::max(1.0, n_ / 600));
    const double error = growth * rounding * std::sqrt(shifts[t]) *
                         (spread * mean_square(t, s) + single / std::sqrt(shifts[s]));
    return error <= most_error &&
           in_pairing * error * std::sqrt(shifts[t]) <= most_pairing * nuclear_;
  }

  // Whether that is so of x - uᵀ s u x too, where rounding is that of x itself, in as many
  // directions as are brought down.
  bool suits_at_top(size_t t, size_t s) const {
    constexpr double most_error = 2.5e-5;
    return rounding * mean_square(t, s) * std::sqrt(static_cast<double>(top(t))) <= most_error;
  }

  std::array<double, sturm_shifts> shifts;
  std::array<Index, sturm_shifts> counts;

 private:
  static constexpr double rounding = 6e-8;

  // Of the eigenvalues of P, its root.
  double mean_square(size_t t, size_t s) const {
    const double at_top = static_cast<double>(top(t)) / std::sqrt(shifts[s] * shifts[t]);
    return std::sqrt((inverses_[s] - inverses_[t] + at_top) / n_);
  }

  double n_;
  std::array<double, sturm_shifts> inverses_{};  // Σ 1/λ over the eigenvalues above a shift
  double nuclear_ = 1;                           // Σ √λ, from below
};

// The ends that cost least; none where double throughout costs less. Costs are in units of one
// direction at the top that is brought down in double; those that count as zero cost the same
// everywhere.
std::optional<Ends> choose_ends(const GradedGram& gram) {
  const Index n = gram.t.size(), zeros = n - gram.kept;
  const EndGrid grid(gram);
  std::optional<Ends> best;
  double least = 0.23 * static_cast<double>(n);
  size_t s = 0;
  for (size_t t = 0; t <= EndGrid::last; ++t) {
    s = std::max(s, t);
    while (s < EndGrid::last && grid.suits(t, s + 1)) ++s;
    // Below the smallest eigenvalue kept there is nothing to gain.
    size_t at = s;
    while (at > t && grid.counts[at - 1] <= zeros) --at;
    const Index top = grid.top(t), small = std::max(zeros, grid.counts[at]) - zeros;
    const bool narrow = small == 0 && grid.suits_at_top(t, at);
    const double each = narrow ? 0.4 : 1, reading = static_cast<double>(n) / (narrow ? 50 : 16);
    const double cost = each * static_cast<double>(top) + 2 * static_cast<double>(small) +
                        (top + small > 0 ? reading : 0);
    if (cost < least) {
      least = cost;
      best = Ends{top, small + zeros, std::max(gram.low, grid.shifts[at] * gram.high),
                  grid.shifts[t] * gram.high, narrow};
    }
  }
  return best;
}

// Rounded reflectors, which are still orthogonal.
Reflectors<float> narrowed(const Reflectors<double>& h, Workspace& workspace) {
  const Index n = h.vectors.rows;
  const Reflectors<float> to{square_matrix<float>(n, workspace), workspace.take<float>(n)};
  for (Index k = 0; k + 1 < n; ++k) {
    const double* from = h.vectors.row(k);
    float* v = to.vectors.row(k);
    for (Index j = k + 1; j < n; ++j) v[j] = static_cast<float>(from[j]);
    const double tau = h.tau[static_cast<size_t>(k)];
    to.tau[static_cast<size_t>(k)] = static_cast<float>(
        tau == 0 ? 0 : 2 / kernels<float>().sum_squares(v + k + 1, 1, n - k - 1));
  }
  return to;
}

// The rows of z, each times its weight.
template <class T>
MatrixView<T> scaled_rows(ConstMatrixView<double> z, std::span<const double> weights,
                          Workspace& workspace) {
  const auto out = workspace.matrix<T>(z.rows, z.cols);
  for (Index i = 0; i < z.rows; ++i) {
    const double weight = weights[static_cast<size_t>(i)];
    std::transform(z.row(i), z.row(i) + z.cols, out.row(i),
                   [=](double x) { return static_cast<T>(weight * x); });
  }
  return out;
}

// The eigenpairs of both ends; the rows of `vectors` are the small ones, ascending, then those at
// the top.
struct EndPairs {
  std::span<double> values;
  MatrixView<double> vectors;
  Index small;

  EndPairs(Index n, const Ends& ends, Workspace& workspace)
      : values(workspace.take<double>(ends.top + ends.small)),
        vectors(workspace.matrix<double>(ends.top + ends.small, n)),
        small(ends.small) {}

  bool find(const GradedGram& gram, const Ends& ends, Workspace& workspace) const {
    const auto count = static_cast<size_t>(small);
    return (ends.top == 0 ||
            largest_eigenpairs(gram.t, ends.high, gram.high, values.subspan(count),
                               vectors.row_range(small, vectors.rows), workspace)) &&
           (small == 0 || smallest_eigenpairs(gram.t, ends.low, gram.high, values.first(count),
                                              vectors.row_range(0, small), workspace));
  }
};

// factor <- p(T), p being 1/sqrt between the ends, 1/τ at the top and 0 at the small end, where f
// is several times as large as 1/sqrt(low) before it is taken out: from its first two poles, which
// are added in double.
void find_function(const Tridiagonal<double>& t, const Ends& ends, const EndPairs& pairs,
                   MatrixView<float> factor, Workspace& workspace) {
  constexpr double tolerance = 5e-7;
  const Workspace::Frame frame(workspace);
  const Quadrature f(ends.low, ends.high, tolerance);
  const int steep = pairs.vectors.rows > 0 ? 2 : 0;
  inverse_sqrt(t, 0, f.poles(steep, f.count), factor, workspace);
  if (steep == 0) return;
  const auto wide = square_matrix<double>(t.size(), workspace);
  inverse_sqrt(t, 0, f.poles(0, steep), wide, workspace);
  const auto weights = workspace.take<double>(pairs.vectors.rows);
  const double inverse_tau = 1 / ends.tau();
  const auto count = static_cast<size_t>(pairs.small);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double value = f(pairs.values[i]);
    weights[i] = std::sqrt(i < count ? value : inverse_tau - value);
  }
  const auto scaled = scaled_rows<double>(pairs.vectors, weights, workspace);
  if (pairs.small > 0) {
    blas::syrk<double>(-1, scaled.row_range(0, pairs.small), Op::Transpose, 1, wide);
  }
  if (ends.top > 0) {
    blas::syrk<double>(1, scaled.row_range(pairs.small, scaled.rows), Op::Transpose, 1, wide);
  }
  for (Index i = 0; i < factor.rows; ++i) {
    const double* from = wide.row(i);
    float* to = factor.row(i);
    for (Index j = i; j < factor.cols; ++j) {
      to[j] = static_cast<float>(static_cast<double>(to[j]) + from[j]);
    }
  }
}

// u x (x uᵀ) as a product in float.
MatrixView<float> product_in_float(const ShortSide<float>& side, ConstMatrixView<double> u,
                                   ConstMatrixView<float> x, Workspace& workspace) {
  const auto narrow = workspace.matrix<float>(u.rows, u.cols);
  const auto result = side.matrix(u.rows, x, workspace);
  convert(u, narrow);
  side.transform(1, narrow, Op::None, x, 0, result);
  return result;
}

// out <- x - uᵀ diag(shares) u x  (x - x uᵀ diag(shares) u)
void take_out_in_float(const ShortSide<float>& side, ConstMatrixView<double> u,
                       std::span<const double> shares, ConstMatrixView<float> x,
                       MatrixView<float> out, Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const auto part = product_in_float(side, u, x, workspace);
  copy<float>(x, out);
  side.transform(-1, scaled_rows<float>(u, shares, workspace), Op::Transpose, part, 1, out);
}

// part <- u x (x uᵀ) as a product in float for eigenvectors u, with the lengths it must have: the
// roots of the eigenvalues.
void multiply_roughly(const ShortSide<float>& side, ConstMatrixView<double> u,
                      std::span<const double> eigenvalues, ConstMatrixView<float> x,
                      MatrixView<double> part, Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const auto product = product_in_float(side, u, x, workspace);
  const auto factors = workspace.take<double>(u.rows), squares = workspace.take<double>(u.rows);
  std::ranges::fill(squares, 0.0);
  for (Index i = 0; i < product.rows; ++i) {
    if (side.left) {
      squares[static_cast<size_t>(i)] = kernels<float>().sum_squares(product.row(i), 1, x.cols);
    } else {
      kernels<float>().add_squares(squares.data(), product.row(i), 1, u.rows);
    }
  }
  for (size_t i = 0; i < factors.size(); ++i) factors[i] = std::sqrt(eigenvalues[i] / squares[i]);
  convert(product, part);
  for (Index i = 0; i < part.rows; ++i) {
    double* row = part.row(i);
    for (Index j = 0; j < part.cols; ++j) row[j] *= factors[static_cast<size_t>(side.left ? i : j)];
  }
}

}  // namespace

Graded graded_polar(const ShortSide<float>& side, const GradedGram& gram, ConstMatrixView<float> x,
                    MatrixView<float> q, MatrixView<float> spare, Workspace& workspace) {
  const auto ends = choose_ends(gram);
  if (!ends) return Graded::TooManyEnds;
  const Workspace::Frame frame(workspace);
  const Index n = gram.t.size(), zeros = n - gram.kept, small = ends->small - zeros;
  const EndPairs pairs(n, *ends, workspace);
  if (!pairs.find(gram, *ends, workspace)) return Graded::Failed;
  const auto factor = square_matrix<float>(n, workspace);
  find_function(gram.t, *ends, pairs, factor, workspace);
  {
    const Workspace::Frame inner(workspace);
    back_transform(narrowed(gram.h, workspace), factor, centre_of(ends->low, ends->high), {},
                   workspace, side.threads);
  }

  const auto vectors = pairs.vectors.row_range(zeros, pairs.vectors.rows);
  const auto values = pairs.values.subspan(static_cast<size_t>(zeros));
  const Index count = vectors.rows;
  const auto part =
      workspace.matrix<double>(side.left ? count : x.rows, side.left ? x.cols : count);
  const auto part_of = [&](Index begin, Index end) {
    return side.left ? part.row_range(begin, end) : part.block(0, begin, part.rows, end - begin);
  };
  ConstMatrixView<float> reduced = x;
  if (count > 0) back_transform(gram.h, {}, 0, vectors, workspace, side.threads);
  const auto shares = workspace.take<double>(ends->top);
  for (size_t i = 0; i < shares.size(); ++i) {
    shares[i] = 1 - ends->tau() / std::sqrt(values[static_cast<size_t>(small) + i]);
  }
  if (ends->narrow && ends->top > 0) {
    take_out_in_float(side, vectors, shares, x, spare, workspace);
    reduced = spare;
  } else if (count > 0) {
    // An error of uᵢx stays in the direction uᵢ, where P is 1/τ for those at the top.
    constexpr double most_above = 100;
    const bool roughly = small == 0 && std::sqrt(gram.high) <= most_above * ends->tau();
    if (roughly) {
      multiply_roughly(side, vectors, values, x, part, workspace);
    } else {
      project_on(side, vectors, x, part, workspace);
    }
    if (ends->top > 0) {
      subtract_products(side,
                        scaled_rows<double>(vectors.row_range(small, count), shares, workspace),
                        part_of(small, count), x, spare, workspace);
      reduced = spare;
    }
  }
  side.multiply(factor, reduced, 0, q);
  if (small > 0) {
    const auto weights = workspace.take<double>(small);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = 1 / std::sqrt(values[i]);
    const auto rounded = side.matrix(small, x, workspace);
    convert(part_of(0, small), rounded);
    side.transform(1, scaled_rows<float>(vectors.row_range(0, small), weights, workspace),
                   Op::Transpose, rounded, 1, q);
  }
  return Graded::Done;
}

}  // namespace normball::detail
