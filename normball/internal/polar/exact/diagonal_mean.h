// Errors of Householder transformations are proportional to the norm of what is transformed, and a
// multiple of I passes through unchanged: so it is taken out before and put back after. Internal.
#pragma once

#include "normball/matrix_view.h"

namespace normball::detail {

// Subtracts the mean of the diagonal and returns it.
template <class T>
T remove_mean(MatrixView<T> a) {
  double trace = 0;
  for (Index i = 0; i < a.rows; ++i) trace += static_cast<double>(a(i, i));
  const T mean = static_cast<T>(trace / static_cast<double>(a.rows));
  for (Index i = 0; i < a.rows; ++i) a(i, i) -= mean;
  return mean;
}

}  // namespace normball::detail
