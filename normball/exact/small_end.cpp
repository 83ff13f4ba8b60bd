#include "normball/exact/small_end.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "normball/blas.h"
#include "normball/exact/tuning.h"
#include "normball/kernels.h"

namespace normball::detail {
namespace {

// An interval with one eigenvalue, once it is isolated. All is relative to `scale`.
struct Bracket {
  double low, high;
  bool done = false;

  double width() const { return high - low; }
  double middle() const { return (low + high) / 2; }
};

double gap_at(std::span<const Bracket> brackets, size_t j, double limit) {
  const double right = j + 1 < brackets.size() ? brackets[j + 1].low : limit;
  const double gap = right - brackets[j].high;
  return j == 0 ? gap : std::min(gap, brackets[j].low - brackets[j - 1].high);
}

// Narrows the brackets by Sturm counts until each is small against the gaps around it.
template <class T>
bool isolate(const Tridiagonal<T>& t, double limit, double scale, std::span<Bracket> brackets) {
  constexpr int most_sweeps = 60;
  constexpr double narrow = 0.02;
  std::ranges::fill(brackets, Bracket{-16 * Tuning<T>::noise, limit});
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    const auto left = std::ranges::count(brackets, false, &Bracket::done);
    if (left == 0) return true;
    // Every bracket gets as many shifts; equal ones, which follow each other, share theirs.
    const Index each = std::max<Index>(1, sturm_shifts / left);
    std::array<double, sturm_shifts> shifts;
    std::array<Index, sturm_shifts> counts;
    Index used = 0;
    for (size_t j = 0; j < brackets.size() && used < sturm_shifts;) {
      const Bracket b = brackets[j];
      size_t next = j;
      while (next < brackets.size() && brackets[next].low == b.low) ++next;
      const Index points =
          b.done ? 0 : std::min(sturm_shifts - used, each * static_cast<Index>(next - j));
      for (Index p = 1; p <= points; ++p) {
        shifts[static_cast<size_t>(used++)] =
            b.low + b.width() * static_cast<double>(p) / static_cast<double>(points + 1);
      }
      j = next;
    }
    std::fill(shifts.begin() + used, shifts.end(), limit);
    kernels<T>().sturm_counts(t.diagonal.data(), t.off_diagonal.data(), scale, shifts.data(),
                              counts.data(), t.size());
    for (size_t j = 0; j < brackets.size(); ++j) {
      for (size_t p = 0; p < static_cast<size_t>(used); ++p) {
        if (counts[p] <= static_cast<Index>(j)) {
          brackets[j].low = std::max(brackets[j].low, shifts[p]);
        } else {
          brackets[j].high = std::min(brackets[j].high, shifts[p]);
        }
      }
    }
    for (size_t j = 0; j < brackets.size(); ++j) {
      brackets[j].done = brackets[j].width() <= narrow * gap_at(brackets, j, limit);
    }
  }
  return false;
}

// Twisted factorizations of T - value (Dhillon 1997): the eigenvector's largest entry is where the
// two ends of T, eliminated towards each other, leave the smallest pivot.
template <class T>
struct Twisted {
  const Tridiagonal<T>& t;
  double scale;
  std::span<double> down, up, vector;

  double diagonal(Index i) const { return static_cast<double>(t.diagonal[at(i)]) / scale; }
  double off(Index i) const { return static_cast<double>(t.off_diagonal[at(i)]) / scale; }
  static size_t at(Index i) { return static_cast<size_t>(i); }
  static double pivot(double x) { return std::abs(x) < 1e-30 ? -1e-30 : x; }

  // vector <- the solution of (T - value) z = pivot e_k, z_k = 1; returns the pivot and |z|².
  std::pair<double, double> solve(double value) const {
    const Index n = t.size();
    down[0] = pivot(diagonal(0) - value);
    up[at(n - 1)] = pivot(diagonal(n - 1) - value);
    for (Index i = 1; i < n; ++i) {
      const Index j = n - 1 - i;
      const double above = off(i - 1), below = off(j);
      down[at(i)] = pivot(diagonal(i) - value - above * above / down[at(i - 1)]);
      up[at(j)] = pivot(diagonal(j) - value - below * below / up[at(j + 1)]);
    }
    Index k = 0;
    double smallest = HUGE_VAL;
    for (Index i = 0; i < n; ++i) {
      const double twist = down[at(i)] + up[at(i)] - (diagonal(i) - value);
      if (std::abs(twist) < std::abs(smallest)) {
        smallest = twist;
        k = i;
      }
    }
    vector[at(k)] = 1;
    for (Index i = k; i > 0; --i) vector[at(i - 1)] = -off(i - 1) * vector[at(i)] / down[at(i - 1)];
    for (Index i = k; i + 1 < n; ++i) vector[at(i + 1)] = -off(i) * vector[at(i)] / up[at(i + 1)];
    return {smallest, kernels<double>().sum_squares(vector.data(), 1, n)};
  }
};

}  // namespace

template <class T>
bool smallest_eigenpairs(const Tridiagonal<T>& t, double limit, double scale, std::span<T> values,
                         MatrixView<T> vectors, Workspace& workspace) {
  constexpr int most_steps = 6;
  const Workspace::Frame frame(workspace);
  const Index n = t.size();
  const auto brackets = workspace.take<Bracket>(static_cast<Index>(values.size()));
  if (!isolate(t, limit / scale, scale, brackets)) return false;
  const Twisted<T> twisted{t, scale, workspace.take<double>(n), workspace.take<double>(n),
                           workspace.take<double>(n)};
  for (size_t j = 0; j < brackets.size(); ++j) {
    const Bracket& b = brackets[j];
    // An eigenvector's error is the residual over the gap.
    const double tolerance = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2 *
                             gap_at(brackets, j, limit / scale);
    double value = b.middle(), length = 1;
    bool converged = false;
    for (int step = 0; step < most_steps && !converged; ++step) {
      const auto [pivot, square] = twisted.solve(value);
      converged = std::abs(pivot) <= tolerance * std::sqrt(square);
      if (!converged) value = std::clamp(value + pivot / square, b.low, b.high);
      length = std::sqrt(square);
    }
    if (!converged) return false;
    values[j] = static_cast<T>(value * scale);
    std::ranges::transform(twisted.vector, vectors.row(static_cast<Index>(j)),
                           [=](double x) { return static_cast<T>(x / length); });
  }
  return true;
}

template bool smallest_eigenpairs(const Tridiagonal<float>&, double, double, std::span<float>,
                                  MatrixView<float>, Workspace&);
template bool smallest_eigenpairs(const Tridiagonal<double>&, double, double, std::span<double>,
                                  MatrixView<double>, Workspace&);

}  // namespace normball::detail
