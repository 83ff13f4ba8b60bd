#include "normball/shape.h"

#include "normball/base/error.h"

namespace normball {
namespace {

Index checked_product(Index a, Index b) {
  if (b != 0 && a > max_elements / b) {
    throw_invalid("flatten", "the shape is too large: more than ", max_elements, " elements");
  }
  return a * b;
}

}  // namespace

std::string detail::shape_error(const Shape& shape) {
  const auto& [rows, cols, kernel, rank] = shape;
  std::ostringstream text;
  if (rows < 0 || cols < 0 || rank < 0) {
    text << "rows, cols and rank must not be negative, got " << rows << ", " << cols << " and "
         << rank;
  } else if (kernel < 1 || cols % kernel != 0) {
    text << "kernel must be at least 1 and divide cols, which is fan-in times kernel, got kernel "
         << kernel << " and cols " << cols;
  } else if (rows > max_elements || cols > max_elements ||
             (cols != 0 && rows > max_elements / cols)) {
    text << rows << "x" << cols << " is too large: at most " << max_elements << " elements";
  }
  return text.str();
}

void validate(const Shape& shape) {
  const std::string error = detail::shape_error(shape);
  if (!error.empty()) throw_invalid("Shape", error);
}

Shape flatten(std::span<const Index> dimensions) {
  Shape shape{.rank = static_cast<int>(dimensions.size())};
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const Index n = dimensions[i];
    if (n < 0) throw_invalid("flatten", "dimension ", i, " must not be negative, got ", n);
    if (i == 0) {
      shape.rows = checked_product(n, 1);
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
