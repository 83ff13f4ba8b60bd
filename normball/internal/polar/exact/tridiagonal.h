// A symmetric matrix as H T Hᵀ with T tridiagonal and H orthogonal, a product of reflectors.
// Internal.
#pragma once

#include <span>

#include "normball/matrix_view.h"
#include "normball/workspace.h"

namespace normball::detail {

template <class T>
struct Tridiagonal {
  std::span<T> diagonal;
  std::span<T> off_diagonal;  // as long as the diagonal; the last entry is not used

  Index size() const { return static_cast<Index>(diagonal.size()); }
  static Tridiagonal take(Index n, Workspace& workspace) {
    return {workspace.take<T>(n), workspace.take<T>(n)};
  }
};

// Reflector k is I - tau[k] v vᵀ with v in row k of `vectors`, right of the diagonal; v starts
// with 1.
template <class T>
struct Reflectors {
  MatrixView<T> vectors;
  std::span<T> tau;
};

// Memory for an n x n matrix whose rows start at lines of the cache and do not compete for the same
// ones, as those a multiple of 1 KiB apart would.
template <class T>
MatrixView<T> square_matrix(Index n, Workspace& workspace) {
  constexpr Index kibibyte = 1024 / sizeof(T), line = 64 / sizeof(T);
  const Index whole = (n + line - 1) / line * line;
  const Index stride = n <= line ? n : whole % kibibyte == 0 ? whole + line : whole;
  return {workspace.take<T>(n * stride).data(), n, n, stride};
}

// a = H T Hᵀ. Reads the upper triangle of a and leaves the reflectors of H there (h.vectors = a).
template <class T>
void tridiagonalize(const Reflectors<T>& h, const Tridiagonal<T>& t, Workspace& workspace,
                    int threads);

// f <- H f Hᵀ (upper triangle), and z <- z Hᵀ: eigenvectors of T in rows become those of a. Either
// may be empty. Rounding is that of f - centre.
template <class T>
void back_transform(const Reflectors<T>& h, MatrixView<T> f, double centre, MatrixView<T> z,
                    Workspace& workspace, int threads);

}  // namespace normball::detail
