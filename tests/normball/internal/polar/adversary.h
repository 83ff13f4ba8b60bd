// Random matrices that are hard for an exact polar factor, and what the result must satisfy,
// measured by LAPACK in double precision on the matrix as stored.
#pragma once

#include <numeric>
#include <sstream>

#include "spectra.h"

namespace normball::testing {

// Everything about one case follows from its seed.
struct Hard {
  Matrix<double> x;
  std::string name;
};

inline Index below(Random& random, Index n) {
  return static_cast<Index>(random.next() % static_cast<std::uint64_t>(n));
}

// Singular values between 1 and `small` in one of several patterns.
inline std::vector<double> hard_spectrum(Index n, double small, Index pattern, Random& random) {
  std::vector<double> sigma(static_cast<size_t>(n), 1.0);
  const auto some = below(random, n + 1);
  const double level = std::pow(small, random.uniform());
  for (Index k = 0; k < n; ++k) {
    const double share = n == 1 ? 0 : static_cast<double>(k) / static_cast<double>(n - 1);
    double& s = sigma[static_cast<size_t>(k)];
    switch (pattern) {
      case 0:
        s = std::pow(small, share);
        break;  // log-uniform
      case 1:
        s = std::pow(small, random.uniform());
        break;  // ... at random
      case 2:
        s = k < some ? 1 : small;
        break;  // two values
      case 3:
        s = k < some ? 1 : small * (1 + 1e-6 * random.uniform());
        break;  // a cluster
      case 4:
        s = k == n - 1 ? small : 1;
        break;  // one tiny
      case 5:
        s = k == 0 ? 1 : small;
        break;  // one large
      case 6:
        s = std::pow(small, std::floor(4 * share) / 4);
        break;  // steps
      case 7:
        s = k < some ? std::pow(level, share) : small * random.uniform();
        break;
      default:
        s = 1 / (1 + share / small);
        break;  // 1/i, cut at small
    }
  }
  return sigma;
}

// Zeroes, repeats and rescales some rows (columns, where `transposed`).
inline void spoil(Matrix<double>& x, Random& random) {
  for (const bool columns : {false, true}) {
    const Index n = columns ? x.cols : x.rows, length = columns ? x.rows : x.cols;
    const Index kind = below(random, 5), count = below(random, std::max<Index>(1, n / 2));
    const auto at = [&](Index i, Index j) -> double& { return columns ? x(j, i) : x(i, j); };
    for (Index c = 0; c < count && kind < 3; ++c) {
      const Index to = below(random, n), from = below(random, n);
      const double factor = kind == 2 ? std::pow(10, -6 * random.uniform()) : 1;
      for (Index j = 0; j < length; ++j) {
        at(to, j) = kind == 0 ? 0 : kind == 1 ? at(from, j) : factor * at(to, j);
      }
    }
  }
}

inline Hard hard_matrix(Index rows, Index cols, double most_condition, Random& random) {
  const Index n = std::min(rows, cols), kind = below(random, 6);
  Hard hard;
  std::ostringstream name;
  if (kind == 0) {  // exactly of low rank, but for rounding
    const Index rank = 1 + below(random, n);
    hard.x = product(gaussian<double>(rank, rows, random), blas::Op::Transpose,
                     gaussian<double>(rank, cols, random));
    name << "product of rank " << rank;
  } else if (kind == 1) {  // small integers: many equal and zero singular values
    hard.x = Matrix<double>(rows, cols);
    const Index most = 1 + below(random, 3);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        hard.x(i, j) = static_cast<double>(below(random, 2 * most + 1) - most);
      }
    }
    name << "integers up to " << most;
  } else if (kind == 2) {  // a gradient behind a ReLU with dead units
    const Index batch = 1 + below(random, 2 * n);
    auto errors = gaussian<double>(batch, rows, random);
    auto inputs = gaussian<double>(batch, cols, random);
    const double decay = 4 * random.uniform();
    for (Index i = 0; i < rows; ++i) {
      const bool dead = random.uniform() < 0.1;
      for (Index b = 0; b < batch; ++b) errors(b, i) *= dead || random.uniform() < 0.5 ? 0 : 1;
    }
    for (Index j = 0; j < cols; ++j) {
      const double size = std::pow(10, -decay * random.uniform());
      for (Index b = 0; b < batch; ++b) inputs(b, j) = size * std::max(0.0, inputs(b, j));
    }
    hard.x = product(errors, blas::Op::Transpose, inputs);
    name << "gradient, batch " << batch << ", decay " << decay;
  } else {
    const double small = std::pow(most_condition, -random.uniform());
    const Index pattern = below(random, 9);
    const auto sigma = hard_spectrum(n, small, pattern, random);
    auto u = orthonormal_rows(n, rows, random);
    const auto v = orthonormal_rows(n, cols, random);
    for (Index k = 0; k < n; ++k) {
      for (Index i = 0; i < rows; ++i) u(k, i) *= sigma[static_cast<size_t>(k)];
    }
    hard.x = product(u, blas::Op::Transpose, v);
    name << "spectrum " << pattern << " to " << small;
  }
  if (kind != 1 && below(random, 2) == 0) {
    spoil(hard.x, random);
    name << ", spoiled";
  }
  hard.name = name.str();
  return hard;
}

// The case of a seed, with a short side from `smallest` to `largest`, mostly small: log-uniform.
inline Hard hard_case(std::uint64_t seed, Index smallest, Index largest, double most_condition) {
  Random random(seed);
  const double range = static_cast<double>(largest + 1) / static_cast<double>(smallest);
  const double size = static_cast<double>(smallest) * std::pow(range, random.uniform());
  const Index n = std::min(largest, static_cast<Index>(size));
  const Index m = random.uniform() < 0.4 ? n : n + below(random, 3 * n);
  const bool tall = random.next() % 2 == 0;
  return hard_matrix(tall ? m : n, tall ? n : m, most_condition, random);
}

struct HardQuality {
  double error = 0;      // ‖q - U Vᵀ‖₂ outside of singular values next to the cut
  double above_one = 0;  // largest singular value - 1
  double below_one = 0;  // 1 - smallest singular value on the range
  double pairing = 0;    // |<x, q> - the sum of singular values above the cut| / that of all
  double condition = 1;  // of the range
  Index rank = 0;

  // The bounds of docs/polar.md. In double, LAPACK's own singular vectors are only good to
  // rounding times the condition number.
  bool within(bool single, Index n) const {
    if (single) return error <= 5e-3 && above_one <= 2e-4 && below_one <= 2e-4 && pairing <= 1e-5;
    return error <= 1e-6 + 1e-15 * static_cast<double>(n) * condition && above_one <= 1e-12 &&
           below_one <= 1e-10 && pairing <= 1e-11;
  }
};

template <class T>
HardQuality hard_quality(const PolarSolver& solver, const Matrix<T>& x) {
  const SingleThreadedBlas guard;
  const Index rows = x.rows, cols = x.cols, n = std::min(rows, cols);
  Workspace workspace;
  Matrix<T> q(rows, cols);
  polar<T>(solver, x.view(), q.view(), workspace);
  const auto stored = convert<double>(x), result = convert<double>(q);
  auto work = stored, destroyed = result;
  Matrix<double> u(rows, n), vt(n, cols), uq(n, cols), core(n, n);
  std::vector<double> sigma(static_cast<size_t>(n)), sigma_q(sigma.size());
  blas::svd<double>(work.view(), u.view(), sigma.data(), vt.view(), workspace);
  blas::singular_values<double>(destroyed.view(), sigma_q.data(), workspace);
  HardQuality quality;
  const double cut = static_cast<double>(std::max(rows, cols)) *
                     static_cast<double>(std::numeric_limits<T>::epsilon()) * sigma[0];
  const auto clear = [&](Index k) {
    const double s = sigma[static_cast<size_t>(k)];
    return s > 2 * cut || s < cut / 2;
  };
  double kept = 0, undecided = 0;
  Index sure = 0;
  for (Index k = 0; k < n; ++k) {
    const double s = sigma[static_cast<size_t>(k)];
    if (s > cut) {
      kept += s;
      ++quality.rank;
      quality.condition = sigma[0] / s;
    }
    if (s > 2 * cut) ++sure;
    if (!clear(k)) undecided += s;
  }
  if (sigma[0] == 0) return quality;
  quality.above_one = sigma_q[0] - 1;
  quality.below_one = 1 - sigma_q[static_cast<size_t>(sure - 1)];
  quality.pairing = std::max(0.0, std::abs(inner(stored, result) - kept) - undecided) /
                    std::accumulate(sigma.begin(), sigma.end(), 0.0);
  // In the basis of the singular vectors the result is the identity on the range.
  blas::gemm<double>(1, u.view(), blas::Op::Transpose, result.view(), blas::Op::None, 0, uq.view());
  blas::gemm<double>(1, uq.view(), blas::Op::None, vt.view(), blas::Op::Transpose, 0, core.view());
  // ... and nothing outside of it.
  auto outside = result;
  blas::gemm<double>(1, core.view(), blas::Op::None, vt.view(), blas::Op::None, 0, uq.view());
  blas::gemm<double>(-1, u.view(), blas::Op::None, uq.view(), blas::Op::None, 1, outside.view());
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) {
      if (i == j && i < quality.rank) core(i, j) -= 1;
      if (!clear(i) || !clear(j)) core(i, j) = 0;
    }
  }
  blas::singular_values<double>(core.view(), sigma_q.data(), workspace);
  quality.error = std::max(sigma_q[0], std::sqrt(inner(outside, outside)));
  return quality;
}

}  // namespace normball::testing
