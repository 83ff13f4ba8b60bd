#include "normball/internal/polar/exact/occupied.h"

#include <algorithm>
#include <numeric>

namespace normball::detail {
namespace {

// Of the ascending indices 0, 1, ..., n - 1 in `all`, those that are not in `left_out`.
std::span<Index> without(std::span<Index> all, std::span<const Index> left_out) {
  std::iota(all.begin(), all.end(), Index{0});
  if (left_out.empty()) return all;
  const auto end = std::ranges::set_difference(all, left_out, all.begin()).out;
  return all.first(static_cast<size_t>(end - all.begin()));
}

}  // namespace

template <class T>
Occupied<T>::Occupied(ConstMatrixView<T> x, Workspace& workspace)
    : all_rows_(x.rows), all_cols_(x.cols) {
  const auto rows = workspace.take<Index>(x.rows), cols = workspace.take<Index>(x.cols);
  const auto zeros = workspace.take<Index>(x.cols);
  const auto is_zero = [](T value) { return value == T(0); };
  // Columns that are zero in all rows so far.
  std::iota(zeros.begin(), zeros.end(), Index{0});
  auto left = zeros;
  size_t used = 0;
  for (Index i = 0; i < x.rows; ++i) {
    const T* row = x.row(i);
    if (std::all_of(row, row + x.cols, is_zero)) continue;
    rows[used++] = i;
    const auto end =
        std::remove_if(left.begin(), left.end(), [=](Index j) { return !is_zero(row[j]); });
    left = left.first(static_cast<size_t>(end - left.begin()));
  }
  rows_ = rows.first(used);
  cols_ = without(cols, left);
}

// The work is quadratic in the short side; on the long one a few lines are not worth the copies.
template <class T>
bool Occupied<T>::worth_it() const {
  constexpr Index one_in = 16;
  const bool wide = all_rows_ <= all_cols_;
  const Index short_side = wide ? all_rows_ : all_cols_, long_side = wide ? all_cols_ : all_rows_;
  return std::min(rows(), cols()) < short_side ||
         one_in * (long_side - std::max(rows(), cols())) >= long_side;
}

template <class T>
void Occupied<T>::gather(ConstMatrixView<T> x, double scale, MatrixView<T> out) const {
  for (size_t i = 0; i < rows_.size(); ++i) {
    const T* from = x.row(rows_[i]);
    T* to = out.row(static_cast<Index>(i));
    for (size_t j = 0; j < cols_.size(); ++j) {
      to[j] = static_cast<T>(scale * static_cast<double>(from[cols_[j]]));
    }
  }
}

// Backwards, so that nothing is overwritten before it has moved.
template <class T>
void Occupied<T>::scatter(MatrixView<T> q) const {
  size_t i = rows_.size();
  for (Index row = all_rows_; row-- > 0;) {
    T* to = q.row(row);
    if (i == 0 || rows_[i - 1] != row) {
      std::fill_n(to, all_cols_, T(0));
      continue;
    }
    const T* from = q.row(static_cast<Index>(--i));
    size_t j = cols_.size();
    for (Index col = all_cols_; col-- > 0;) {
      to[col] = j > 0 && cols_[j - 1] == col ? from[--j] : T(0);
    }
  }
}

template class Occupied<float>;
template class Occupied<double>;

}  // namespace normball::detail
