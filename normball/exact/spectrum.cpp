#include "normball/exact/spectrum.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "normball/exact/tuning.h"
#include "normball/kernels.h"
#include "normball/parallel.h"
#include "normball/short_side.h"

namespace normball::detail {
namespace {

using Shifts = std::array<double, sturm_shifts>;
using Counts = std::array<Index, sturm_shifts>;

// Eigenvalues below scale * shift, for every shift.
template <class T>
Counts counts_below(const Tridiagonal<T>& t, double scale, const Shifts& shifts) {
  Counts counts;
  kernels<T>().sturm_counts(t.diagonal.data(), t.off_diagonal.data(), scale, shifts.data(),
                            counts.data(), t.size());
  return counts;
}

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
Plan make_plan(const Tridiagonal<T>& t, double final_ratio, bool may_deflate, bool lifted) {
  using Tune = Tuning<T>;
  const double clean_ratio = Tune::clean_ratio(t.size());
  Plan plan;
  plan.high = gershgorin(t);
  if (!(plan.high > 0)) return plan;
  // Powers of ten downwards, then two shifts around the noise, on either side of zero.
  constexpr size_t powers = sturm_shifts - 2, above_noise = powers, below_noise = powers + 1;
  Shifts shifts;
  for (size_t s = 0; s < powers; ++s) {
    shifts[s] = std::pow(10.0, -Tune::grid_decades * static_cast<double>(s) / (powers - 1));
  }
  shifts[above_noise] = 3 * Tune::noise;
  shifts[below_noise] = -Tune::noise;
  const Counts counts = counts_below(t, plan.high, shifts);
  const Index zeros = lifted ? counts[above_noise] : 0;
  const auto lowest_above = [&](Index count) {  // no more than `count` eigenvalues are smaller
    size_t s = 0;
    while (s < powers && counts[s] > count) ++s;
    return s < powers ? shifts[s] : 0;
  };
  const double gap = lowest_above(zeros);
  plan.singular = zeros > 0 && gap >= clean_ratio;
  const double low = plan.singular ? gap : lowest_above(0);
  const auto first_below = [&](double ratio) {
    size_t s = 0;
    while (shifts[s] > ratio) ++s;
    return s;
  };
  const size_t at_final = first_below(final_ratio), at_clean = first_below(clean_ratio);

  plan.low = low * plan.high;
  if (counts[at_final] == 0) {
    plan.treatment = Treatment::Clean;
    plan.final = true;
  } else if (may_deflate && !plan.singular && counts[at_final] <= most_deflated_to_end(t.size())) {
    plan.treatment = Treatment::Deflate;
    plan.final = true;
    plan.deflated = counts[at_final];
    plan.low = shifts[at_final] * plan.high;
  } else if (plan.singular || counts[at_clean] == 0) {
    plan.treatment = Treatment::Clean;
  } else if (may_deflate && counts[at_clean] <= most_deflated(t.size())) {
    plan.treatment = Treatment::Deflate;
    plan.deflated = counts[at_clean];
    plan.low = shifts[at_clean] * plan.high;
  } else {
    plan.treatment = Treatment::Shift;
    if (low < 10 * Tune::noise) {
      plan.shift = (counts[below_noise] > 0 ? 8 : 2) * Tune::noise * plan.high;
    }
    plan.low = std::max(plan.low + plan.shift, plan.shift / 2);
    plan.high += plan.shift;
  }
  return plan;
}

// Every sweep narrows the interval by the number of shifts.
template <class T>
double largest_eigenvalue(const Tridiagonal<T>& t) {
  const double bound = gershgorin(t);
  if (!(bound > 0)) return 0;
  double low = 0, high = 1 + 1e-15;
  while (high - low > 4e-16) {
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
  const int exponent = std::clamp(-std::ilogb(max), -1000, 1000);
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

#define NORMBALL_INSTANTIATE(T)                                       \
  template Plan make_plan(const Tridiagonal<T>&, double, bool, bool); \
  template double largest_eigenvalue(const Tridiagonal<T>&);          \
  template double largest_singular_value(ConstMatrixView<T>, Workspace&);
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball::detail
