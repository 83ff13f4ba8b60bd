// The closing step: x <- p(I - R) x with a short polynomial, where R = x xᵀ is near I. Internal.
#pragma once

#include "normball/matrix_view.h"
#include "normball/workspace.h"

namespace normball::detail {

// c <- a I + b e, both halves, from the upper triangle of e; c may be e.
template <class T>
void affine(double a, double b, ConstMatrixView<T> e, MatrixView<T> c);

// An estimate of ‖E‖₂ for E = I - R (upper triangle) by power iteration, rather too large. With
// `on_range`, of E restricted to the range of R.
template <class T>
double estimate_norm(ConstMatrixView<T> e, bool on_range, Workspace& workspace);

// The degree that leaves singular values within the allowed loss where ‖I - R‖ = e: 1, 3 or 5; 0
// where none does. Partial sums of (1 - e)^{-1/2} of odd degree never exceed it for e <= 1, so the
// result stays in the unit ball whatever the estimate.
template <class T>
int closing_degree(double e);

// p <- I + E/2 + 3/8 E² + 5/16 E³ + ..., cut at `degree`. e is E, both halves; it is destroyed.
template <class T>
void closing_polynomial(int degree, MatrixView<T> e, MatrixView<T> p, Workspace& workspace,
                        int threads);

}  // namespace normball::detail
