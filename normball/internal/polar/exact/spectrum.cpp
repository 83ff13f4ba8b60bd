#include "normball/internal/polar/exact/spectrum.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "normball/base/parallel.h"
#include "normball/internal/kernels/kernels.h"
#include "normball/internal/polar/exact/tuning.h"
#include "normball/internal/polar/short_side.h"

namespace normball::detail {
namespace {

using Shifts = std::array<double, sturm_shifts>;
using Counts = std::array<Index, sturm_shifts>;

// An upper bound of the eigenvalues by Gershgorin's discs.
template <class T>
double gershgorin(const Tridiagonal<T>& t) {
  double bound = 0, left = 0;
  for (size_t i = 0; i < t.diagonal.size(); ++i) {
    const double right =
        i + 1 < t.diagonal.size() ? std::abs(static_cast<double>(t.off_diagonal[i])) : 0;
    bound = std::max(bound, static_cast<double>(t.diagonal[i]) + left + right);
    left = right;
  }
  return bound;
}

}  // namespace

template <class T>
Counts counts_below(const Tridiagonal<T>& t, double scale, const Shifts& shifts) {
  Counts counts;
  kernels<T>().sturm_counts(t.diagonal.data(), t.off_diagonal.data(), scale, shifts.data(),
                            counts.data(), t.size());
  return counts;
}

template <class T>
Plan make_plan(const Tridiagonal<T>& t, double final_ratio, double cut) {
  using Tune = Tuning<T>;
  constexpr double reliable = 30;  // times the noise: from there on an eigenvalue is not rounding
  Plan plan;
  plan.high = gershgorin(t);
  if (!(plan.high > cut * cut)) return plan;
  // Powers of ten downwards, then the cut.
  constexpr size_t powers = sturm_shifts - 1, at_cut = powers;
  Shifts shifts;
  for (size_t s = 0; s < powers; ++s) {
    shifts[s] = std::pow(10.0, -Tune::grid_decades * static_cast<double>(s) / (powers - 1));
  }
  shifts[at_cut] = cut * cut / plan.high;
  const Counts counts = counts_below(t, plan.high, shifts);
  const Index zeros = shifts[at_cut] >= reliable * Tune::noise ? counts[at_cut] : 0;
  if (zeros == t.size()) return plan;
  size_t s = 0;
  while (s < powers && counts[s] > zeros) ++s;
  const double low = std::max(s < powers ? shifts[s] : 0, zeros > 0 ? shifts[at_cut] : 0);
  const auto first_below = [&](double ratio) {
    size_t at = 0;
    while (shifts[at] > ratio) ++at;
    return at;
  };
  const double clean_ratio = Tune::clean_ratio(t.size());
  const size_t at_final = first_below(final_ratio),
               at_split = first_below(Tune::split_ratio(t.size()));
  const auto deflate = [&](size_t at) {
    plan.treatment = Treatment::Deflate;
    plan.removed = counts[at];
    plan.low = shifts[at] * plan.high;
  };

  plan.treatment = Treatment::Clean;
  plan.low = low * plan.high;
  plan.removed = zeros;
  plan.final = low >= final_ratio;
  if (plan.final) return plan;
  if (counts[at_final] <= most_deflated_to_end<T>(t.size(), low >= clean_ratio)) {
    deflate(at_final);
    plan.final = true;
  } else if (low < clean_ratio && counts[at_split] <= most_deflated<T>(t.size())) {
    deflate(at_split);
  } else if (low < clean_ratio) {
    plan.treatment = Treatment::Refuse;
  }
  return plan;
}

template <class T>
Index count_below(const Tridiagonal<T>& t, double limit) {
  Shifts shifts;
  shifts.fill(1);
  return counts_below(t, limit, shifts)[0];
}

// Every sweep narrows the interval by the number of shifts.
template <class T>
double largest_eigenvalue(const Tridiagonal<T>& t, double tolerance) {
  const double bound = gershgorin(t);
  if (!(bound > 0)) return 0;
  double low = 0, high = 1 + 1e-15;
  while (high - low > tolerance) {
    Shifts shifts;
    const double step = (high - low) / (sturm_shifts + 1);
    for (size_t s = 0; s < shifts.size(); ++s) shifts[s] = low + step * static_cast<double>(s + 1);
    const Counts counts = counts_below(t, bound, shifts);
    size_t s = 0;
    while (s < shifts.size() && counts[s] < t.size()) ++s;
    if (s < shifts.size()) high = shifts[s];
    if (s > 0) low = shifts[s - 1];
  }
  return bound * (low + high) / 2;
}

template <class T>
double largest_singular_value(ConstMatrixView<T> x, Workspace& workspace) {
  const double max = max_abs<T>(x);
  if (max == 0) return 0;
  const SingleThreadedBlas guard;
  const Workspace::Frame frame(workspace);
  const auto scaled = workspace.matrix<T>(x.rows, x.cols);
  const int exponent = -std::clamp(std::ilogb(max), -1000, 1000);
  for_each_run(x, scaled, [&](const T* from, T* to, Index n) {
    kernels<T>().add_scaled(to, 0, from, std::ldexp(1, exponent), 1, n);
  });
  const auto side = ShortSide<T>::of(x, 1);
  const Index n = side.size(x);
  const auto t = Tridiagonal<T>::take(n, workspace);
  const Reflectors<T> h{workspace.matrix<T>(n, n), workspace.take<T>(n)};
  side.gram(1, scaled, 0, h.vectors);
  tridiagonalize(h, t, workspace, 1);
  return std::ldexp(std::sqrt(largest_eigenvalue(t)), -exponent);
}

#define NORMBALL_INSTANTIATE(T)                                               \
  template Plan make_plan(const Tridiagonal<T>&, double, double);             \
  template double largest_eigenvalue(const Tridiagonal<T>&, double);          \
  template Counts counts_below(const Tridiagonal<T>&, double, const Shifts&); \
  template Index count_below(const Tridiagonal<T>&, double);                  \
  template double largest_singular_value(ConstMatrixView<T>, Workspace&);
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball::detail
