// Non-owning, row-major views of matrices: the only way data enters and leaves the library.
#pragma once

#include <cstdint>

namespace normball {

using Index = std::int64_t;

// The bytes of a matrix must be countable, so that no size computed from a shape overflows.
inline constexpr Index max_elements = INT64_MAX / 8;

// Element (i, j) is data[i * stride + j]; stride >= cols allows a block of a wider matrix.
template <class T>
struct MatrixView {
  T* data = nullptr;
  Index rows = 0;
  Index cols = 0;
  Index stride = 0;

  // noexcept: where it is left to be deduced, GCC 12 fails on Parameter's initializer in programs.
  constexpr MatrixView() noexcept = default;
  constexpr MatrixView(T* data_, Index rows_, Index cols_)
      : MatrixView(data_, rows_, cols_, cols_) {}
  constexpr MatrixView(T* data_, Index rows_, Index cols_, Index stride_)
      : data(data_), rows(rows_), cols(cols_), stride(stride_) {}

  constexpr operator MatrixView<const T>() const { return {data, rows, cols, stride}; }

  constexpr T* row(Index i) const { return data + i * stride; }
  constexpr T& operator()(Index i, Index j) const { return data[i * stride + j]; }
  constexpr Index size() const { return rows * cols; }
  constexpr bool empty() const { return size() == 0; }
  constexpr bool contiguous() const { return stride == cols || rows <= 1; }
  constexpr MatrixView row_range(Index begin, Index end) const {
    return {data + begin * stride, end - begin, cols, stride};
  }
  constexpr MatrixView block(Index i, Index j, Index rows_, Index cols_) const {
    return {data + i * stride + j, rows_, cols_, stride};
  }
};

template <class T>
using ConstMatrixView = MatrixView<const T>;

template <class T>
bool same_size(MatrixView<T> a, auto b) {
  return a.rows == b.rows && a.cols == b.cols;
}

namespace detail {
// Whether the two have an element in common; blocks side by side in a wider matrix have none.
template <class A, class B>
bool overlap(MatrixView<A> a, MatrixView<B> b) {
  if (a.empty() || b.empty()) return false;
  const auto runs = [](auto view) { return view.contiguous() ? 1 : view.rows; };
  const auto begin = [](auto view, Index run) {
    return reinterpret_cast<std::uintptr_t>(view.row(run));
  };
  const auto bytes = [](auto view) {
    const Index elements = view.contiguous() ? view.size() : view.cols;
    return static_cast<std::uintptr_t>(elements) * sizeof(*view.data);
  };
  for (Index i = 0, j = 0; i < runs(a) && j < runs(b);) {
    if (begin(a, i) + bytes(a) <= begin(b, j)) {
      ++i;
    } else if (begin(b, j) + bytes(b) <= begin(a, i)) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}
}  // namespace detail

}  // namespace normball
