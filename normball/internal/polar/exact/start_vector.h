#pragma once

#include <cmath>
#include <span>

namespace normball::detail {

// A fixed vector without structure, from which power iterations start: matrices of small integers
// have eigenvectors that are orthogonal to many vectors of signs.
template <class T>
void fill_start_vector(std::span<T> x) {
  for (size_t i = 0; i < x.size(); ++i) {
    const double turn = 0.6180339887498949 * static_cast<double>(i + 1);
    const double size = 0.5 + (turn - std::floor(turn));
    x[i] = static_cast<T>(i * 7 % 11 < 5 ? size : -size);
  }
}

}  // namespace normball::detail
