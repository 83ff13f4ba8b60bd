// Errors name the function, the value received, and the values allowed:
//   [Sign] radius must be positive and finite, got -1
#pragma once

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "normball/matrix_view.h"

namespace normball {

// A gradient, a weight or s held NaN or infinity and the optimizer was asked to throw.
class NonFiniteError : public std::runtime_error {
 public:
  explicit NonFiniteError(const std::string& text, std::string layer = {})
      : std::runtime_error(text), layer_(std::move(layer)) {}

  const std::string& layer() const { return layer_; }  // the first such layer, if known

 private:
  std::string layer_;
};

template <class... Parts>
std::string error_message(std::string_view where, const Parts&... parts) {
  std::ostringstream text;
  text << '[' << where << "] ";
  (text << ... << parts);
  return text.str();
}

template <class... Parts>
[[noreturn]] void throw_invalid(std::string_view where, const Parts&... parts) {
  throw std::invalid_argument(error_message(where, parts...));
}

inline void require_positive(std::string_view where, std::string_view what, double value) {
  if (!(std::isfinite(value) && value > 0)) {
    throw_invalid(where, what, " must be positive and finite, got ", value);
  }
}

// The name comes in pieces, which are put together only where there is an error.
template <class T, class... Name>
void require_view(std::string_view where, MatrixView<T> view, const Name&... name) {
  if (view.rows < 0 || view.cols < 0 || (view.rows > 1 && view.stride < view.cols)) {
    throw_invalid(where, name..., " has ", view.rows, " rows, ", view.cols,
                  " columns and row stride ", view.stride,
                  "; sizes must not be negative and the stride not below the columns");
  }
  if (view.rows > 0 && std::max(view.stride, view.cols) > max_elements / view.rows) {
    throw_invalid(where, name..., " has ", view.rows, " rows and ", view.cols,
                  " columns, which is too large: at most ", max_elements, " elements");
  }
  if (view.data == nullptr && !view.empty()) throw_invalid(where, name..., " has null data");
}

template <class A, class B>
void require_same_size(std::string_view where, std::string_view what, MatrixView<A> got,
                       std::string_view other, MatrixView<B> expected) {
  if (!same_size(got, expected)) {
    throw_invalid(where, what, " is ", got.rows, "x", got.cols, " but ", other, " is ",
                  expected.rows, "x", expected.cols);
  }
}

}  // namespace normball
