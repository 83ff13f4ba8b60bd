#include "normball/shape.h"

#include <limits>

#include "normball/error.h"

namespace normball {
namespace {

// The bytes of a double matrix must be countable, so that no size computed from a shape overflows.
Index checked_product(Index a, Index b) {
  constexpr Index most = std::numeric_limits<Index>::max() / static_cast<Index>(sizeof(double));
  if (b != 0 && a > most / b) {
    detail::invalid("flatten", "the shape is too large: more than ", most, " elements");
  }
  return a * b;
}

}  // namespace

Shape flatten(std::span<const Index> dimensions) {
  Shape shape{.rank = static_cast<int>(dimensions.size())};
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const Index n = dimensions[i];
    if (n < 0) detail::invalid("flatten", "dimension ", i, " must not be negative, got ", n);
    if (i == 0) {
      shape.rows = n;
    } else {
      shape.cols = checked_product(shape.cols, n);
      if (i >= 2) shape.kernel = checked_product(shape.kernel, n);
    }
  }
  checked_product(shape.rows, shape.cols);
  if (shape.kernel == 0) shape.kernel = 1;  // an empty convolution has no kernel to divide by
  return shape;
}

}  // namespace normball
