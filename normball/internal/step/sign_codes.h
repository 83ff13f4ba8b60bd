// The signs of a matrix, two bits each: what processes send each other of a layer whose direction
// is the sign of its average. Internal.
#pragma once

#include <cstddef>

#include "normball/matrix_view.h"

namespace normball::detail {

inline Index sign_code_bytes(Index cols) { return (cols + 3) / 4; }  // of a row

// codes <- the signs of d, row by row.
template <class T>
void write_sign_codes(ConstMatrixView<T> d, std::byte* codes);
// out <- -1, 0 and 1.
template <class T>
void read_sign_codes(const std::byte* codes, MatrixView<T> out);

}  // namespace normball::detail
