// What the eigenvalues of a tridiagonal matrix look like, by Sturm sequences. Internal.
#pragma once

#include <array>
#include <type_traits>

#include "normball/internal/kernels/kernels.h"
#include "normball/internal/polar/exact/tridiagonal.h"

namespace normball::detail {

enum class Treatment {
  Zero,     // all of it counts as zero
  Clean,    // all eigenvalues alike, but for those that count as zero
  Deflate,  // the smallest ones apart, at their own scale
  Refuse,   // too many are small
};

// How to treat a Gram matrix: f approximates 1/sqrt on [low, high] and leaves the `removed`
// smallest eigenvalues out.
struct Plan {
  Treatment treatment = Treatment::Zero;
  double low = 0, high = 0;
  Index removed = 0;
  bool final = false;  // no closing step is needed
};

// More directions are not worth splitting off. In double there is nothing else.
template <class T>
constexpr Index most_deflated(Index n) {
  return std::is_same_v<T, double> ? n : n / 5;
}
// ... in order to save the closing step, which costs less than a few directions do where x is
// small.
template <class T>
constexpr Index most_deflated_to_end(Index n, bool can_close) {
  if (std::is_same_v<T, double> || !can_close || n > 64) return n / 8;
  return n <= 32 ? 0 : n / 16;
}

// `final_ratio`: λmin / λmax from which the plan is final. Eigenvalues up to cut² count as zero.
template <class T>
Plan make_plan(const Tridiagonal<T>& t, double final_ratio, double cut);

// To within `tolerance` of a bound that is at most three times as large.
template <class T>
double largest_eigenvalue(const Tridiagonal<T>& t, double tolerance = 4e-16);

// The numbers of eigenvalues below scale * shift, for every shift.
template <class T>
std::array<Index, sturm_shifts> counts_below(const Tridiagonal<T>& t, double scale,
                                             const std::array<double, sturm_shifts>& shifts);

// The number of eigenvalues below `limit` > 0.
template <class T>
Index count_below(const Tridiagonal<T>& t, double limit);

// The largest singular value of x, accurate to rounding, without LAPACK's (which may allocate).
template <class T>
double largest_singular_value(ConstMatrixView<T> x, Workspace& workspace);

}  // namespace normball::detail
