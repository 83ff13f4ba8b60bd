#pragma once

#include <span>

namespace normball::detail {

// A fixed vector of signs without structure, from which power and inverse iterations start.
template <class T>
void fill_start_vector(std::span<T> x) {
  for (size_t i = 0; i < x.size(); ++i) x[i] = i * 7 % 11 < 5 ? T(1) : T(-1);
}

}  // namespace normball::detail
