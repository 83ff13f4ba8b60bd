#include "normball/internal/kernels/blas.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "normball/base/error.h"
#include "normball/base/processor.h"

// Fortran's calling convention: everything by pointer, the lengths of strings at the end by value.
#define NORMBALL_DECLARE(p, T)                                                                     \
  void p##gemm_(const char*, const char*, const int*, const int*, const int*, const T*, const T*,  \
                const int*, const T*, const int*, const T*, T*, const int*, size_t, size_t);       \
  void p##syrk_(const char*, const char*, const int*, const int*, const T*, const T*, const int*,  \
                const T*, T*, const int*, size_t, size_t);                                         \
  void p##symm_(const char*, const char*, const int*, const int*, const T*, const T*, const int*,  \
                const T*, const int*, const T*, T*, const int*, size_t, size_t);                   \
  void p##syr2k_(const char*, const char*, const int*, const int*, const T*, const T*, const int*, \
                 const T*, const int*, const T*, T*, const int*, size_t, size_t);                  \
  void p##gemv_(const char*, const int*, const int*, const T*, const T*, const int*, const T*,     \
                const int*, const T*, T*, const int*, size_t);                                     \
  void p##trsm_(const char*, const char*, const char*, const char*, const int*, const int*,        \
                const T*, const T*, const int*, T*, const int*, size_t, size_t, size_t, size_t);   \
  void p##potrf_(const char*, const int*, T*, const int*, int*, size_t);                           \
  void p##stemr_(const char*, const char*, const int*, T*, T*, const T*, const T*, const int*,     \
                 const int*, int*, T*, T*, const int*, const int*, int*, int*, T*, const int*,     \
                 int*, const int*, int*, size_t, size_t);                                          \
  void p##stedc_(const char*, const int*, T*, T*, T*, const int*, T*, const int*, int*,            \
                 const int*, int*, size_t);                                                        \
  void p##gesdd_(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*,      \
                 const int*, T*, const int*, int*, int*, size_t);                                  \
  void p##gesvd_(const char*, const char*, const int*, const int*, T*, const int*, T*, T*,         \
                 const int*, T*, const int*, T*, const int*, int*, size_t, size_t);                \
  void p##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);                \
  void p##orgqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*,     \
                 int*);
extern "C" {
NORMBALL_DECLARE(s, float)
NORMBALL_DECLARE(d, double)
}
#undef NORMBALL_DECLARE

namespace normball::blas {
namespace {

template <class T>
struct Fortran;

#define NORMBALL_BIND(p, T)                   \
  template <>                                 \
  struct Fortran<T> {                         \
    static constexpr auto gemm = &p##gemm_;   \
    static constexpr auto syrk = &p##syrk_;   \
    static constexpr auto symm = &p##symm_;   \
    static constexpr auto syr2k = &p##syr2k_; \
    static constexpr auto gemv = &p##gemv_;   \
    static constexpr auto trsm = &p##trsm_;   \
    static constexpr auto potrf = &p##potrf_; \
    static constexpr auto stemr = &p##stemr_; \
    static constexpr auto stedc = &p##stedc_; \
    static constexpr auto gesdd = &p##gesdd_; \
    static constexpr auto gesvd = &p##gesvd_; \
    static constexpr auto geqrf = &p##geqrf_; \
    static constexpr auto orgqr = &p##orgqr_; \
  };
NORMBALL_BIND(s, float)
NORMBALL_BIND(d, double)
#undef NORMBALL_BIND

int to_int(Index n) {
  if (n > std::numeric_limits<int>::max()) {
    throw_invalid("blas", "a dimension of ", n, " exceeds the largest dimension that BLAS accepts");
  }
  return static_cast<int>(n);
}

template <class T>
int leading(MatrixView<T> x) {
  return to_int(std::max<Index>(1, x.rows > 1 ? x.stride : std::max(x.stride, x.cols)));
}

// A row-major matrix is its transpose in Fortran's eyes.
const char* flag(Op op) { return op == Op::None ? "N" : "T"; }
const char* flipped(Op op) { return op == Op::None ? "T" : "N"; }

void check(const char* routine, int info) {
  if (info != 0) {
    throw std::runtime_error(error_message("blas", routine, " failed with info ", info));
  }
}

template <class T>
int work_length(T query) {
  // A float holds sizes only to 24 bits; the next float up is never too small.
  return static_cast<int>(static_cast<double>(query) *
                          (1 + 2 * static_cast<double>(std::numeric_limits<float>::epsilon()))) +
         1;
}

template <class T>
void call_gemm(T alpha, ConstMatrixView<T> a, Op op_a, ConstMatrixView<T> b, Op op_b, T beta,
               MatrixView<T> c) {
  const int m = to_int(c.cols), n = to_int(c.rows);
  const int k = to_int(op_a == Op::None ? a.cols : a.rows);
  if (m == 0 || n == 0) return;
  warn_about_blas_once();
  const int lda = leading(a), ldb = leading(b), ldc = leading(c);
  Fortran<T>::gemm(flag(op_b), flag(op_a), &m, &n, &k, &alpha, b.data, &ldb, a.data, &lda, &beta,
                   c.data, &ldc, 1, 1);
}

// `side` is where the symmetric matrix stands in Fortran's eyes.
template <class T>
void call_symm(const char* side, T alpha, ConstMatrixView<T> s, ConstMatrixView<T> b, T beta,
               MatrixView<T> c) {
  const int m = to_int(c.cols), n = to_int(c.rows);
  if (m == 0 || n == 0) return;
  const int lds = leading(s), ldb = leading(b), ldc = leading(c);
  Fortran<T>::symm(side, "L", &m, &n, &alpha, s.data, &lds, b.data, &ldb, &beta, c.data, &ldc, 1,
                   1);
}

}  // namespace

template <class T>
void gemm(T alpha, ConstMatrixView<T> a, Op op_a, ConstMatrixView<T> b, Op op_b, T beta,
          MatrixView<T> c) {
  // OpenBLAS 0.3.21 on AVX-512 has a kernel for small products that calls malloc where up to half a
  // vector of columns is left over and the inner dimension has two vectors or more. Those columns
  // are computed apart, with the inner dimension in pieces.
  constexpr Index lanes = 64 / sizeof(T), longest = 2 * lanes - 1;
  const Index inner = a.cols, tail = c.cols % lanes;
  const bool small =
      static_cast<double>(c.rows) * static_cast<double>(c.cols) * static_cast<double>(inner) <= 1e6;
  if (op_a == Op::Transpose || op_b == Op::Transpose || !small || inner <= longest || tail == 0 ||
      tail > lanes / 2) {
    return call_gemm(alpha, a, op_a, b, op_b, beta, c);
  }
  const Index even = c.cols - tail;
  call_gemm(alpha, a, op_a, b.block(0, 0, inner, even), op_b, beta, c.block(0, 0, c.rows, even));
  for (Index k = 0; k < inner; k += longest) {
    const Index depth = std::min(longest, inner - k);
    call_gemm(alpha, a.block(0, k, a.rows, depth), op_a, b.block(k, even, depth, tail), op_b,
              k == 0 ? beta : T(1), c.block(0, even, c.rows, tail));
  }
}

template <class T>
void syrk(T alpha, ConstMatrixView<T> x, Op op, T beta, MatrixView<T> c) {
  const int n = to_int(c.rows);
  const int k = to_int(op == Op::None ? x.cols : x.rows);
  if (n == 0) return;
  warn_about_blas_once();
  const int ldx = leading(x), ldc = leading(c);
  Fortran<T>::syrk("L", flipped(op), &n, &k, &alpha, x.data, &ldx, &beta, c.data, &ldc, 1, 1);
}

template <class T>
void syr2k(T alpha, ConstMatrixView<T> a, ConstMatrixView<T> b, T beta, MatrixView<T> c) {
  const int n = to_int(c.rows), k = to_int(a.rows);
  if (n == 0) return;
  const int lda = leading(a), ldb = leading(b), ldc = leading(c);
  Fortran<T>::syr2k("L", "N", &n, &k, &alpha, a.data, &lda, b.data, &ldb, &beta, c.data, &ldc, 1,
                    1);
}

template <class T>
void gemv(T alpha, ConstMatrixView<T> a, Op op, const T* x, Index step, T beta, T* y) {
  const int m = to_int(a.cols), n = to_int(a.rows);
  if (m == 0 || n == 0) return;
  const int lda = leading(a), incx = to_int(step), one = 1;
  Fortran<T>::gemv(flipped(op), &m, &n, &alpha, a.data, &lda, x, &incx, &beta, y, &one, 1);
}

template <class T>
void symm_left(T alpha, ConstMatrixView<T> s, ConstMatrixView<T> b, T beta, MatrixView<T> c) {
  call_symm("R", alpha, s, b, beta, c);
}

template <class T>
void symm_right(T alpha, ConstMatrixView<T> b, ConstMatrixView<T> s, T beta, MatrixView<T> c) {
  call_symm("L", alpha, s, b, beta, c);
}

template <class T>
void mirror_upper(MatrixView<T> c) {
  constexpr Index block = 32;  // both blocks of a pair stay in the first-level cache
  for (Index i0 = 0; i0 < c.rows; i0 += block) {
    for (Index j0 = i0; j0 < c.cols; j0 += block) {
      const Index i1 = std::min(i0 + block, c.rows), j1 = std::min(j0 + block, c.cols);
      for (Index i = i0; i < i1; ++i) {
        for (Index j = std::max(j0, i + 1); j < j1; ++j) c(j, i) = c(i, j);
      }
    }
  }
}

template <class T>
bool cholesky(MatrixView<T> s) {
  const int n = to_int(s.rows), lds = leading(s);
  int info = 0;
  Fortran<T>::potrf("L", &n, s.data, &lds, &info, 1);
  return info == 0;
}

template <class T>
void solve_triangular_left(ConstMatrixView<T> u, MatrixView<T> x) {
  const int m = to_int(x.cols), n = to_int(x.rows), ldu = leading(u), ldx = leading(x);
  const T one = 1;
  if (m == 0 || n == 0) return;
  Fortran<T>::trsm("R", "L", "T", "N", &m, &n, &one, u.data, &ldu, x.data, &ldx, 1, 1, 1, 1);
}

template <class T>
void solve_triangular_right(ConstMatrixView<T> u, MatrixView<T> x) {
  const int m = to_int(x.cols), n = to_int(x.rows), ldu = leading(u), ldx = leading(x);
  const T one = 1;
  if (m == 0 || n == 0) return;
  Fortran<T>::trsm("L", "L", "N", "N", &m, &n, &one, u.data, &ldu, x.data, &ldx, 1, 1, 1, 1);
}

template <class T>
bool smallest_eigenpairs(std::span<T> diagonal, std::span<T> off_diagonal, std::span<T> values,
                         MatrixView<T> vectors, Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const Index size = static_cast<Index>(diagonal.size());
  const int n = to_int(size), first = 1, count = to_int(vectors.rows), ldz = leading(vectors);
  const int lwork = 18 * n, liwork = 10 * n;  // what stemr documents
  const auto work = workspace.take<T>(lwork), all_values = workspace.take<T>(size);
  const auto iwork = workspace.take<int>(liwork), support = workspace.take<int>(2 * size);
  const T unused = 0;
  int found = 0, relative_accuracy = 1, info = 0;
  Fortran<T>::stemr("V", "I", &n, diagonal.data(), off_diagonal.data(), &unused, &unused, &first,
                    &count, &found, all_values.data(), vectors.data, &ldz, &count, support.data(),
                    &relative_accuracy, work.data(), &lwork, iwork.data(), &liwork, &info, 1, 1);
  std::copy_n(all_values.begin(), values.size(), values.begin());
  return info == 0 && found == count;
}

template <class T>
bool eigenpairs(std::span<T> diagonal, std::span<T> off_diagonal, MatrixView<T> vectors,
                Workspace& workspace) {
  const Workspace::Frame frame(workspace);
  const Index size = vectors.rows;
  const int n = to_int(size), ldz = leading(vectors);
  const int lwork = to_int(1 + 4 * size + size * size), liwork = 3 + 5 * n;  // as documented
  const auto work = workspace.take<T>(lwork);
  const auto iwork = workspace.take<int>(liwork);
  int info = 0;
  Fortran<T>::stedc("I", &n, diagonal.data(), off_diagonal.data(), vectors.data, &ldz, work.data(),
                    &lwork, iwork.data(), &liwork, &info, 1);
  return info == 0;
}

template <class T>
void singular_values(MatrixView<T> x, T* sigma, Workspace& workspace) {
  if (x.empty()) return;
  const Workspace::Frame frame(workspace);
  const int m = to_int(x.cols), n = to_int(x.rows), ldx = leading(x), one = 1;
  int info = 0, lwork = -1;
  T query = 0, unused = 0;
  const auto iwork = workspace.take<int>(8 * std::min(x.rows, x.cols));
  const auto run = [&](T* work) {
    Fortran<T>::gesdd("N", &m, &n, x.data, &ldx, sigma, &unused, &one, &unused, &one, work, &lwork,
                      iwork.data(), &info, 1);
    check("gesdd", info);
  };
  run(&query);
  lwork = work_length(query);
  run(workspace.take<T>(lwork).data());
}

template <class T>
void svd(MatrixView<T> x, MatrixView<T> u, T* sigma, MatrixView<T> vt, Workspace& workspace) {
  if (x.empty()) return;
  const Workspace::Frame frame(workspace);
  // xᵀ = v diag(sigma) uᵀ in Fortran's eyes: its U is our vt, its VT is our u.
  const int m = to_int(x.cols), n = to_int(x.rows), ldx = leading(x);
  const int ldu = leading(vt), ldvt = leading(u);
  int info = 0, lwork = -1;
  T query = 0;
  const auto backup = workspace.matrix<T>(x.rows, x.cols);
  for (Index i = 0; i < x.rows; ++i) std::copy_n(x.row(i), x.cols, backup.row(i));
  const auto iwork = workspace.take<int>(8 * std::min(x.rows, x.cols));
  const auto divide = [&](T* work) {
    Fortran<T>::gesdd("S", &m, &n, x.data, &ldx, sigma, vt.data, &ldu, u.data, &ldvt, work, &lwork,
                      iwork.data(), &info, 1);
    check("gesdd", std::min(info, 0));  // more than 0: it did not converge, see below
  };
  divide(&query);
  lwork = work_length(query);
  divide(workspace.take<T>(lwork).data());
  if (info == 0) return;

  // Divide and conquer did not converge, which is rare: the QR iteration does.
  const auto iterate = [&](T* work) {
    Fortran<T>::gesvd("S", "S", &m, &n, x.data, &ldx, sigma, vt.data, &ldu, u.data, &ldvt, work,
                      &lwork, &info, 1, 1);
    check("gesvd", info);
  };
  for (Index i = 0; i < x.rows; ++i) std::copy_n(backup.row(i), x.cols, x.row(i));
  lwork = -1;
  iterate(&query);
  lwork = work_length(query);
  iterate(workspace.take<T>(lwork).data());
}

template <class T>
void orthonormalize_rows(MatrixView<T> x, Workspace& workspace) {
  if (x.empty()) return;
  const Workspace::Frame frame(workspace);
  const int m = to_int(x.cols), n = to_int(x.rows), ldx = leading(x);
  int info = 0, lwork = -1;
  T query_factor = 0, query_form = 0;
  const auto tau = workspace.take<T>(x.rows);
  Fortran<T>::geqrf(&m, &n, x.data, &ldx, tau.data(), &query_factor, &lwork, &info);
  Fortran<T>::orgqr(&m, &n, &n, x.data, &ldx, tau.data(), &query_form, &lwork, &info);
  lwork = work_length(std::max(query_factor, query_form));
  const auto work = workspace.take<T>(lwork);
  Fortran<T>::geqrf(&m, &n, x.data, &ldx, tau.data(), work.data(), &lwork, &info);
  check("geqrf", info);
  Fortran<T>::orgqr(&m, &n, &n, x.data, &ldx, tau.data(), work.data(), &lwork, &info);
  check("orgqr", info);
}

#define NORMBALL_INSTANTIATE(T)                                                              \
  template void gemm(T, ConstMatrixView<T>, Op, ConstMatrixView<T>, Op, T, MatrixView<T>);   \
  template void syrk(T, ConstMatrixView<T>, Op, T, MatrixView<T>);                           \
  template void symm_left(T, ConstMatrixView<T>, ConstMatrixView<T>, T, MatrixView<T>);      \
  template void symm_right(T, ConstMatrixView<T>, ConstMatrixView<T>, T, MatrixView<T>);     \
  template void syr2k(T, ConstMatrixView<T>, ConstMatrixView<T>, T, MatrixView<T>);          \
  template void gemv(T, ConstMatrixView<T>, Op, const T*, Index, T, T*);                     \
  template bool cholesky(MatrixView<T>);                                                     \
  template void solve_triangular_left(ConstMatrixView<T>, MatrixView<T>);                    \
  template void solve_triangular_right(ConstMatrixView<T>, MatrixView<T>);                   \
  template bool smallest_eigenpairs(std::span<T>, std::span<T>, std::span<T>, MatrixView<T>, \
                                    Workspace&);                                             \
  template bool eigenpairs(std::span<T>, std::span<T>, MatrixView<T>, Workspace&);           \
  template void mirror_upper(MatrixView<T>);                                                 \
  template void singular_values(MatrixView<T>, T*, Workspace&);                              \
  template void svd(MatrixView<T>, MatrixView<T>, T*, MatrixView<T>, Workspace&);            \
  template void orthonormalize_rows(MatrixView<T>, Workspace&);
NORMBALL_INSTANTIATE(float)
NORMBALL_INSTANTIATE(double)
#undef NORMBALL_INSTANTIATE

}  // namespace normball::blas
