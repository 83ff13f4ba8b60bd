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

// λmax / λmin left to float: where n is small, rounding averages over fewer entries, and where x is
// large, it adds up. The largest direction, which may outweigh all others in <x, q>, has all of the
// error unless it is brought down.
double most_ratio(Index n, Index length) {
  constexpr double large = 5e5;
  const double entries = static_cast<double>(n) * static_cast<double>(length);
  return n <= 128 ? 2e4 : 1e5 / std::max(1.0 / 3, entries / large);
}
constexpr double most_ratio_alone = 3e3;

// Numbers of directions at the ends, and the eigenvalues between which float works.
struct Ends {
  Index top, small;  // `small` includes those that count as zero
  double low, high;

  // Where the largest are brought: the lower, the less rounding they suffer.
  double tau() const { return std::pow(low * high, 0.25); }
};

// The ends that cost least, by Sturm counts on a grid; none where double throughout costs less.
std::optional<Ends> choose_ends(const GradedGram& gram, Index length) {
  constexpr double cost_of_small = 2.3;  // in units of one at the top
  constexpr size_t last = sturm_shifts - 1;
  const Index n = gram.t.size(), zeros = n - gram.kept;
  const double first = static_cast<double>(n) / 16;  // that x is read for it
  std::array<double, sturm_shifts> shifts;
  const double decades = std::log(gram.low / gram.high);
  for (size_t s = 0; s <= last; ++s) {
    shifts[s] = std::exp(decades * static_cast<double>(s) / static_cast<double>(last));
  }
  const auto counts = counts_below(gram.t, gram.high, shifts);
  std::optional<Ends> best;
  double least = 0.5 * static_cast<double>(n);
  size_t s = 0;
  for (size_t t = 0; t <= last; ++t) {
    const double ratio = t == 0 ? most_ratio_alone : most_ratio(n, length);
    while (s < last && shifts[s + 1] * ratio >= shifts[t]) ++s;
    // Below the smallest eigenvalue kept there is nothing to gain.
    size_t at = s;
    while (at > t && counts[at - 1] <= zeros) --at;
    const Index top = t == 0 ? 0 : n - counts[t], small = std::max(zeros, counts[at]);
    const double cost = static_cast<double>(top) + (top > 0 ? first : 0) +
                        cost_of_small * static_cast<double>(small - zeros) +
                        (small > zeros ? first : 0) + static_cast<double>(zeros);
    if (cost < least) {
      least = cost;
      best = Ends{top, small, std::max(gram.low, shifts[at] * gram.high), shifts[t] * gram.high};
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

// The rows of z, each times its weight, in float.
MatrixView<float> scaled_rows(ConstMatrixView<double> z, std::span<const double> weights,
                              Workspace& workspace) {
  const auto out = workspace.matrix<float>(z.rows, z.cols);
  for (Index i = 0; i < z.rows; ++i) {
    const double weight = weights[static_cast<size_t>(i)];
    std::transform(z.row(i), z.row(i) + z.cols, out.row(i),
                   [=](double x) { return static_cast<float>(weight * x); });
  }
  return out;
}

// The eigenpairs of both ends; the rows of `vectors` are those at the top, then the small ones.
struct EndPairs {
  std::span<double> values;
  MatrixView<double> vectors;
  Index top;

  EndPairs(Index n, const Ends& ends, Workspace& workspace)
      : values(workspace.take<double>(ends.top + ends.small)),
        vectors(workspace.matrix<double>(ends.top + ends.small, n)),
        top(ends.top) {}

  bool find(const GradedGram& gram, const Ends& ends, Workspace& workspace) const {
    const auto count = static_cast<size_t>(top);
    return (top == 0 || largest_eigenpairs(gram.t, ends.high, gram.high, values.first(count),
                                           top_vectors(), workspace)) &&
           (ends.small == 0 ||
            smallest_eigenpairs(gram.t, ends.low, gram.high, values.subspan(count), small_vectors(),
                                workspace));
  }
  MatrixView<double> top_vectors() const { return vectors.row_range(0, top); }
  MatrixView<double> small_vectors() const { return vectors.row_range(top, vectors.rows); }
};

// factor <- H p(T) Hᵀ, p being 1/sqrt between the ends, 1/τ at the top and 0 at the small end.
void find_factor(const GradedGram& gram, const Ends& ends, const EndPairs& pairs,
                 MatrixView<float> factor, Workspace& workspace, int threads) {
  const Workspace::Frame frame(workspace);
  const Quadrature f(ends.low, ends.high, 6e-8);
  inverse_sqrt(gram.t, 0, f, factor, workspace);
  const auto weights = workspace.take<double>(pairs.vectors.rows);
  const double inverse_tau = 1 / ends.tau();
  const auto count = static_cast<size_t>(pairs.top);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double value = f(pairs.values[i]);
    weights[i] = std::sqrt(i < count ? inverse_tau - value : value);
  }
  if (pairs.top > 0) {
    blas::syrk<float>(1, scaled_rows(pairs.top_vectors(), weights.first(count), workspace),
                      Op::Transpose, 1, factor);
  }
  if (ends.small > 0) {
    blas::syrk<float>(-1, scaled_rows(pairs.small_vectors(), weights.subspan(count), workspace),
                      Op::Transpose, 1, factor);
  }
  back_transform(narrowed(gram.h, workspace), factor, {}, workspace, threads);
}

}  // namespace

Graded graded_polar(const ShortSide<float>& side, const GradedGram& gram, ConstMatrixView<float> x,
                    MatrixView<float> q, MatrixView<float> spare, Workspace& workspace) {
  const auto ends = choose_ends(gram, side.length(x));
  if (!ends) return Graded::TooManyEnds;
  const Workspace::Frame frame(workspace);
  const Index n = gram.t.size(), zeros = n - gram.kept, small = ends->small - zeros;
  const EndPairs pairs(n, *ends, workspace);
  if (!pairs.find(gram, *ends, workspace)) return Graded::Failed;
  const auto factor = square_matrix<float>(n, workspace);
  find_factor(gram, *ends, pairs, factor, workspace, side.threads);
  back_transform(gram.h, {}, pairs.vectors, workspace, side.threads);

  const auto small_vectors = pairs.small_vectors().row_range(zeros, ends->small);
  MatrixView<float> part;
  if (small > 0) {
    part =
        side.left ? workspace.matrix<float>(small, x.cols) : workspace.matrix<float>(x.rows, small);
    project_on(side, small_vectors, x, part, workspace);
  }
  ConstMatrixView<float> reduced = x;
  if (pairs.top > 0) {
    const auto shares = workspace.take<double>(pairs.top);
    for (size_t i = 0; i < shares.size(); ++i) {
      shares[i] = 1 - ends->tau() / std::sqrt(pairs.values[i]);
    }
    take_out(side, pairs.top_vectors(), shares, x, spare, workspace);
    reduced = spare;
  }
  side.multiply(factor, reduced, 0, q);
  if (small > 0) {
    const auto weights = workspace.take<double>(small);
    for (Index i = 0; i < small; ++i) {
      weights[static_cast<size_t>(i)] =
          1 / std::sqrt(pairs.values[static_cast<size_t>(pairs.top + zeros + i)]);
    }
    side.transform(1, scaled_rows(small_vectors, weights, workspace), Op::Transpose, part, 1, q);
  }
  return Graded::Done;
}

}  // namespace normball::detail
