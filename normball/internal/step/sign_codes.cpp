#include "normball/internal/step/sign_codes.h"

#include <algorithm>
#include <array>

namespace normball::detail {
namespace {

constexpr Index in_a_byte = 4;

// 0, 1 for positive and 2 for negative numbers.
template <class T>
unsigned code(T x) {
  return static_cast<unsigned>(x > 0) | static_cast<unsigned>(x < 0) << 1;
}

// The four signs of every byte.
template <class T>
constexpr std::array<std::array<T, in_a_byte>, 256> make_signs() {
  constexpr std::array<T, 4> sign = {0, 1, -1, 0};
  std::array<std::array<T, in_a_byte>, 256> table = {};
  for (unsigned byte = 0; byte < table.size(); ++byte) {
    for (unsigned k = 0; k < in_a_byte; ++k) table[byte][k] = sign[byte >> (2 * k) & 3];
  }
  return table;
}

template <class T>
constexpr auto signs = make_signs<T>();

}  // namespace

template <class T>
void write_sign_codes(ConstMatrixView<T> d, std::byte* codes) {
  const Index whole = d.cols / in_a_byte;
  for (Index i = 0; i < d.rows; ++i) {
    const T* const row = d.row(i);
    for (Index b = 0; b < whole; ++b) {
      const T* const x = row + in_a_byte * b;
      codes[b] =
          static_cast<std::byte>(code(x[0]) | code(x[1]) << 2 | code(x[2]) << 4 | code(x[3]) << 6);
    }
    if (whole * in_a_byte < d.cols) {
      unsigned last = 0;
      for (Index j = whole * in_a_byte; j < d.cols; ++j) {
        last |= code(row[j]) << (2 * (j - whole * in_a_byte));
      }
      codes[whole] = static_cast<std::byte>(last);
    }
    codes += sign_code_bytes(d.cols);
  }
}

template <class T>
void read_sign_codes(const std::byte* codes, MatrixView<T> out) {
  for (Index i = 0; i < out.rows; ++i) {
    T* const row = out.row(i);
    for (Index j = 0; j < out.cols; j += in_a_byte) {
      const auto& four = signs<T>[std::to_integer<size_t>(codes[j / in_a_byte])];
      if (out.cols - j >= in_a_byte) {
        std::copy(four.begin(), four.end(), row + j);
      } else {
        std::copy_n(four.begin(), out.cols - j, row + j);
      }
    }
    codes += sign_code_bytes(out.cols);
  }
}

template void write_sign_codes<float>(ConstMatrixView<float>, std::byte*);
template void write_sign_codes<double>(ConstMatrixView<double>, std::byte*);
template void read_sign_codes<float>(const std::byte*, MatrixView<float>);
template void read_sign_codes<double>(const std::byte*, MatrixView<double>);

}  // namespace normball::detail
