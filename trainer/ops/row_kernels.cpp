#include "trainer/ops/row_kernels.h"

#include "normball/internal/kernels/variants.h"

namespace normball::trainer::ops {

template <>
const RowKernels<float>& row_kernels<float>() {
  static const RowKernels<float>& table = NORMBALL_CHOOSE(row_kernels, float);
  return table;
}
template <>
const RowKernels<double>& row_kernels<double>() {
  static const RowKernels<double>& table = NORMBALL_CHOOSE(row_kernels, double);
  return table;
}

}  // namespace normball::trainer::ops
