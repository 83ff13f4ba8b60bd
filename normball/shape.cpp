#include "normball/shape.h"

#include "normball/error.h"

namespace normball {

Shape flatten(std::span<const Index> dimensions) {
  Shape shape{.rank = static_cast<int>(dimensions.size())};
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const Index n = dimensions[i];
    if (n < 0) detail::invalid("flatten", "dimension ", i, " must not be negative, got ", n);
    if (i == 0) {
      shape.rows = n;
    } else {
      shape.cols *= n;
      if (i >= 2) shape.kernel *= n;
    }
  }
  if (shape.kernel == 0) shape.kernel = 1;  // an empty convolution has no kernel to divide by
  return shape;
}

}  // namespace normball
