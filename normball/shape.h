// A parameter's shape, flattened once at the boundary to (fan-out, fan-in * kernel).
#pragma once

#include <span>
#include <string>

#include "normball/matrix_view.h"

namespace normball {

struct Shape {
  Index rows = 1;    // fan-out: the first dimension
  Index cols = 1;    // fan-in times kernel: all the others
  Index kernel = 1;  // k for a 1-d and k*k for a 2-d convolution, else 1
  int rank = 2;      // number of dimensions before flattening

  friend bool operator==(const Shape&, const Shape&) = default;

  Index size() const { return rows * cols; }
  Index fan_in() const { return cols / kernel; }
};

// Throws std::invalid_argument unless rows, cols and rank are not negative, kernel is positive and
// divides cols, and rows * cols is at most max_elements.
void validate(const Shape& shape);

// () -> 1x1, (n) -> nx1, (out, in) -> out x in, (out, in, k...) -> out x (in * k...).
Shape flatten(std::span<const Index> dimensions);

template <class T>
Shape shape_of(MatrixView<T> view) {
  return {.rows = view.rows, .cols = view.cols};
}

namespace detail {
// The error in the shape and what is allowed; empty if the shape is valid.
std::string shape_error(const Shape& shape);
}  // namespace detail

}  // namespace normball
