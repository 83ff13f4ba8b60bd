// Matrices with prescribed singular values, and what an exact polar factor of them must satisfy.
#pragma once

#include <limits>
#include <numeric>
#include <string>

#include "normball/base/parallel.h"
#include "normball/internal/kernels/blas.h"
#include "normball/polar.h"
#include "testing.h"

namespace normball::testing {

struct Spectrum {
  std::string name;
  double condition = 1;  // of those that have one
};

// The spectra a precision must handle: condition numbers up to 1e6 in float, 1e10 in double.
template <class T>
std::vector<Spectrum> all_spectra() {
  std::vector<Spectrum> all;
  for (const auto* name : {"gaussian", "one over i", "one over i squared", "low rank plus noise",
                           "rank n/2", "rank n/2 of ones", "rank 1", "orthogonal", "zero rows"}) {
    all.push_back({name});
  }
  for (const double condition : {1e2, 1e6, 1e10}) {
    if (std::is_same_v<T, float> && condition > 1e6) continue;
    for (const auto* name : {"log-uniform", "one tiny", "one large", "clustered"}) {
      all.push_back({name, condition});
    }
  }
  return all;
}

// Descending singular values, empty for the spectra that are made directly.
inline std::vector<double> singular_values(const Spectrum& spectrum, Index n) {
  const std::string& name = spectrum.name;
  const double small = 1 / spectrum.condition,
               last = static_cast<double>(std::max<Index>(1, n - 1));
  std::vector<double> sigma;
  for (Index k = 0; k < n; ++k) {
    const double i = static_cast<double>(k);
    if (name == "log-uniform") sigma.push_back(std::pow(small, i / last));
    if (name == "one tiny") sigma.push_back(k == n - 1 && n > 1 ? small : 1 - 0.5 * i / last);
    if (name == "one large") sigma.push_back(k == 0 ? 1 : small);
    if (name == "clustered")
      sigma.push_back(k < n / 2 || n == 1 ? 1 : small * (1 + 1e-3 * i / last));
    if (name == "one over i") sigma.push_back(1 / (i + 1));
    if (name == "one over i squared") sigma.push_back(1 / ((i + 1) * (i + 1)));
    if (name == "rank n/2")
      sigma.push_back(k < (n + 1) / 2 ? 1.0 / static_cast<double>(1 + k % 7) : 0);
    if (name == "rank n/2 of ones") sigma.push_back(k < (n + 1) / 2 ? 1 : 0);
    if (name == "rank 1") sigma.push_back(k == 0 ? 1 : 0);
    if (name == "orthogonal") sigma.push_back(1);
  }
  return sigma;
}

// One thread: the thread sanitizer cannot see how OpenMP's wait for each other inside BLAS.
inline Matrix<double> orthonormal_rows(Index rows, Index cols, Random& random) {
  const SingleThreadedBlas guard;
  Workspace workspace;
  auto x = gaussian<double>(rows, cols, random);
  blas::orthonormalize_rows<double>(x.view(), workspace);
  return x;
}

inline Matrix<double> product(const Matrix<double>& a, blas::Op op, const Matrix<double>& b) {
  const SingleThreadedBlas guard;
  Matrix<double> c(op == blas::Op::None ? a.rows : a.cols, b.cols);
  blas::gemm<double>(1, a.view(), op, b.view(), blas::Op::None, 0, c.view());
  return c;
}

inline Matrix<double> matrix_with(const Spectrum& spectrum, Index rows, Index cols,
                                  Random& random) {
  if (rows > cols) return transpose(matrix_with(spectrum, cols, rows, random));
  if (spectrum.name == "gaussian") return gaussian<double>(rows, cols, random);
  if (spectrum.name == "zero rows") {
    auto x = gaussian<double>(rows, cols, random);
    for (Index i = 1; i < rows; i += 3) std::fill_n(&x(i, 0), cols, 0.0);
    return x;
  }
  if (spectrum.name == "low rank plus noise") {
    const Index rank = std::max<Index>(1, rows / 16);
    auto x = product(gaussian<double>(rank, rows, random), blas::Op::Transpose,
                     gaussian<double>(rank, cols, random));
    for (double& entry : x.data) {
      entry = entry / std::sqrt(static_cast<double>(rank)) + 1e-3 * random.normal();
    }
    return x;
  }
  const auto sigma = singular_values(spectrum, rows);
  auto u = orthonormal_rows(rows, rows, random);
  const auto v = orthonormal_rows(rows, cols, random);
  for (Index k = 0; k < rows; ++k) {
    for (Index i = 0; i < rows; ++i) u(k, i) *= sigma[static_cast<size_t>(k)];
  }
  return product(u, blas::Op::Transpose, v);
}

struct PolarQuality {
  double above_one = 0;  // largest singular value - 1
  double below_one = 0;  // 1 - smallest singular value on the range
  double nuclear = 0;    // relative error of <x, q> against the sum of those above the cut
  double range = 0;      // largest entry of q v - u on the range; rank-deficient x only
  double null = 0;       // largest singular value outside of the range
  bool deficient = false;
  bool within(bool single) const {
    return above_one <= (!single     ? 1e-12
                         : deficient ? 1e-5
                                     : 2e-4) &&
           below_one <= (single ? 2e-4 : 1e-10) && nuclear <= (single ? 1e-5 : 1e-11) &&
           range <= (single ? 1e-3 : 1e-10) && null <= (single ? 1e-3 : 1e-10);
  }
};

// The exact polar factor of a matrix with this spectrum, measured by LAPACK in double precision.
template <class T>
PolarQuality polar_quality(const Spectrum& spectrum, Index rows, Index cols, double scale,
                           int threads, std::uint64_t seed) {
  const SingleThreadedBlas guard;  // for the reference; polar() has its own threads
  Random random(seed);
  const auto exact = matrix_with(spectrum, rows, cols, random);
  Matrix<T> x(rows, cols, 3), q(rows, cols, 5);
  Matrix<double> rounded(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) {
      x(i, j) = static_cast<T>(exact(i, j) * scale);
      rounded(i, j) = static_cast<double>(x(i, j)) / scale;
    }
  }
  Workspace workspace;
  polar<T>(ExactPolar{}, x.view(), q.view(), workspace, nullptr, threads);

  const Index n = std::min(rows, cols);
  std::vector<double> sigma(static_cast<size_t>(n)), sigma_q(sigma.size());
  Matrix<double> u(rows, n), vt(n, cols), work = rounded;
  const auto result = convert<double>(q);
  auto destroyed = result;
  blas::singular_values<double>(destroyed.view(), sigma_q.data(), workspace);
  const bool deficient = spectrum.name.starts_with("rank") || spectrum.name == "zero rows";
  PolarQuality quality{.deficient = deficient};
  if (deficient) {
    blas::svd<double>(work.view(), u.view(), sigma.data(), vt.view(), workspace);
  } else {
    blas::singular_values<double>(work.view(), sigma.data(), workspace);
  }
  // Singular values up to the cut become zero; those next to it may go either way.
  const double cut = static_cast<double>(std::max(rows, cols)) *
                     static_cast<double>(std::numeric_limits<T>::epsilon());
  Index rank = n;
  while (rank > 1 && sigma[static_cast<size_t>(rank - 1)] < 2 * cut * sigma[0]) --rank;
  Index null = rank;
  while (null < n && sigma[static_cast<size_t>(null)] > cut / 2 * sigma[0]) ++null;
  if (null < n) quality.null = sigma_q[static_cast<size_t>(null)];
  quality.above_one = sigma_q[0] - 1;
  quality.below_one = 1 - sigma_q[static_cast<size_t>(rank - 1)];
  // <x, q> is the sum of the singular values that become 1.
  const auto largest = [&](Index count) {
    return std::accumulate(sigma.begin(), sigma.begin() + count, 0.0);
  };
  const double pairing = inner(rounded, result);
  quality.nuclear = std::max({0.0, largest(rank) - pairing, pairing - largest(null)}) / largest(n);
  if (deficient) {  // q v = u on the range
    for (Index k = 0; k < rank; ++k) {
      for (Index i = 0; i < rows; ++i) {
        double sum = 0;
        for (Index j = 0; j < cols; ++j) sum += result(i, j) * vt(k, j);
        quality.range = std::max(quality.range, std::abs(sum - u(i, k)));
      }
    }
  }
  return quality;
}

}  // namespace normball::testing
