// A matrix without its rows and columns that are exactly zero. Internal.
#pragma once

#include <span>

#include "normball/workspace.h"

namespace normball::detail {

// The rows and columns of x that are not zero, ascending. Finding them reads x only as far as it is
// zero.
template <class T>
class Occupied {
 public:
  Occupied(ConstMatrixView<T> x, Workspace& workspace);

  // Whether leaving out the others saves more than two copies of x cost.
  bool worth_it() const;
  Index rows() const { return static_cast<Index>(rows_.size()); }
  Index cols() const { return static_cast<Index>(cols_.size()); }
  // out <- scale times the entries of x there
  void gather(ConstMatrixView<T> x, double scale, MatrixView<T> out) const;
  // Spreads the entries at the front of q to their places, and fills the others with zeros.
  void scatter(MatrixView<T> q) const;

 private:
  Index all_rows_, all_cols_;
  std::span<Index> rows_, cols_;
};

}  // namespace normball::detail
