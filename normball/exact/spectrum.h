// What the eigenvalues of a tridiagonal matrix look like, by Sturm sequences. Internal.
#pragma once

#include "normball/exact/tridiagonal.h"

namespace normball::detail {

enum class Treatment {
  Zero,     // the matrix is zero
  Clean,    // all eigenvalues alike
  Deflate,  // the smallest ones apart
  Shift,    // nothing better: lifts what is above the noise
};

// How to treat a Gram matrix: f approximates 1/sqrt(λ + shift) on [low, high].
struct Plan {
  Treatment treatment = Treatment::Zero;
  double low = 0, high = 0, shift = 0;
  Index deflated = 0;
  bool final = false;     // no closing step is needed
  bool singular = false;  // directions below `low` are zero to rounding and stay near zero
};

// More directions are not worth splitting off.
constexpr Index most_deflated(Index n) { return n / 5; }
// ... in order to save the closing step.
constexpr Index most_deflated_to_end(Index n) { return n / 8; }

// `final_ratio`: λmin / λmax from which the plan is final. `lifted`: Halley steps have lifted all
// that is not zero to rounding above the noise.
template <class T>
Plan make_plan(const Tridiagonal<T>& t, double final_ratio, bool may_deflate, bool lifted);

template <class T>
double largest_eigenvalue(const Tridiagonal<T>& t);

// The largest singular value of x, accurate to rounding, without LAPACK's (which may allocate).
template <class T>
double largest_singular_value(ConstMatrixView<T> x, Workspace& workspace);

}  // namespace normball::detail
