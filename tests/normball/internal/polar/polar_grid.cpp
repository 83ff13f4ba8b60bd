// Errors of the exact polar factor over a grid of shapes and spectra; run by hand:
//   polar_grid [longest short side] [longest long side] [shortest short side]
// Small shapes are compared with LAPACK in double precision, with every spectrum. Large ones get
// the hard spectra, from products of plane rotations: their singular vectors are known, and what
// the result must satisfy is checked without an SVD.
#include <cstdio>
#include <cstdlib>
#include <numbers>

#include "normball/base/parallel.h"
#include "spectra.h"

namespace normball::testing {
namespace {

struct Tally {
  PolarQuality worst;
  int cases = 0, failures = 0;
};

constexpr Index largest_small = 255;

// Rotates rows (columns) by angles drawn from `random`, one level of a butterfly after the other:
// after all of them every row depends on every other. Backwards with `inverse`.
void rotate(MatrixView<double> x, bool rows, Random random, bool inverse) {
  const Index n = rows ? x.rows : x.cols;
  struct Rotation {
    Index i, j;
    double c, s;
  };
  std::vector<Rotation> rotations;
  for (int pass = 0; pass < 2; ++pass) {
    for (Index step = 1; step < n; step *= 2) {
      for (Index i = 0; i + step < n; ++i) {
        if (i / step % 2 != 0) continue;
        const double angle = 2 * std::numbers::pi * random.uniform();
        rotations.push_back({i, i + step, std::cos(angle), std::sin(angle)});
      }
    }
  }
  if (inverse) {
    std::ranges::reverse(rotations);
    for (auto& rotation : rotations) rotation.s = -rotation.s;
  }
  const auto turn = [](double& a, double& b, const Rotation& r) {
    const double before = a;
    a = r.c * before - r.s * b;
    b = r.s * before + r.c * b;
  };
  if (rows) {
    for (const auto& r : rotations) {
      for (Index k = 0; k < x.cols; ++k) turn(x(r.i, k), x(r.j, k), r);
    }
  } else {
    for (Index k = 0; k < x.rows; ++k) {
      for (const auto& r : rotations) turn(x(k, r.i), x(k, r.j), r);
    }
  }
}

// The largest eigenvalue of shift I + sign e, for a matrix e that both halves are given of, by
// power iteration.
double largest_eigenvalue(const Matrix<double>& e, double shift, double sign) {
  const Index n = e.rows;
  Random random(5);
  Matrix<double> x = gaussian<double>(1, n, random), y(1, n);
  double value = 0;
  for (int step = 0; step < 60; ++step) {
    const double norm = std::sqrt(inner(x, x));
    for (double& entry : x.data) entry /= norm;
    blas::gemv<double>(sign, e.view(), blas::Op::None, x.data.data(), 1, 0, y.data.data());
    for (Index i = 0; i < n; ++i) y(0, i) += shift * x(0, i);
    value = inner(x, y);
    std::swap(x, y);
  }
  return value;
}

template <class T>
PolarQuality large_quality(const Spectrum& spectrum, Index rows, Index cols, int threads,
                           std::uint64_t seed) {
  const SingleThreadedBlas guard;
  const Index n = std::min(rows, cols);
  Random random(seed);
  const Random left(random.next()), right(random.next());
  const bool known = spectrum.name != "gaussian";
  auto sigma = singular_values(spectrum, n);
  Matrix<double> work = known ? Matrix<double>(rows, cols) : gaussian<double>(rows, cols, random);
  if (known) {
    for (Index k = 0; k < n; ++k) work(k, k) = sigma[static_cast<size_t>(k)];
    rotate(work.view(), true, left, false);
    rotate(work.view(), false, right, false);
  }
  const Matrix<T> x = convert<T>(work);
  Matrix<T> q(rows, cols);
  Workspace workspace;
  polar<T>(ExactPolar{}, x.view(), q.view(), workspace, nullptr, threads);

  PolarQuality quality;
  Matrix<double> gram(n, n);
  const auto form_gram = [&](const Matrix<double>& a) {
    const auto op = rows <= cols ? blas::Op::None : blas::Op::Transpose;
    blas::syrk<double>(1, a.view(), op, 0, gram.view());
    blas::mirror_upper<double>(gram.view());
  };
  // Singular values up to the cut become zero; those next to it may go either way.
  const double cut = static_cast<double>(std::max(rows, cols)) *
                     static_cast<double>(std::numeric_limits<T>::epsilon());
  const auto above = [&](double limit) {
    return std::ranges::count_if(sigma, [=](double s) { return s > limit; });
  };
  if (!known) {  // well enough conditioned for the eigenvalues of the Gram matrix
    form_gram(work);
    sigma.resize(static_cast<size_t>(n));
    blas::singular_values<double>(gram.view(), sigma.data(), workspace);
    for (double& value : sigma) value = std::sqrt(value);
  }
  const Index rank = above(2 * cut * sigma[0]), most = above(cut / 2 * sigma[0]);
  const double nuclear = sum_of(sigma);
  const auto largest = [&](Index count) {
    return std::accumulate(sigma.begin(), sigma.begin() + count, 0.0);
  };
  const double pairing = inner(x, q);
  quality.nuclear = std::max({0.0, largest(rank) - pairing, pairing - largest(most)}) / nuclear;
  work = convert<double>(q);
  form_gram(work);
  if (rank == n) {
    for (Index i = 0; i < n; ++i) gram(i, i) -= 1;
    double size = 0;
    for (const double entry : gram.data) size = std::hypot(size, entry);
    quality.above_one = std::sqrt(1 + largest_eigenvalue(gram, size, 1) - size) - 1;
    quality.below_one = 1 - std::sqrt(1 - (largest_eigenvalue(gram, size, -1) - size));
    return quality;
  }
  // As many as are clearly above the cut must be one.
  std::vector<double> squares(static_cast<size_t>(n));
  blas::singular_values<double>(gram.view(), squares.data(), workspace);
  quality.deficient = sigma.back() <= cut * sigma[0];
  quality.above_one = std::sqrt(squares[0]) - 1;
  quality.below_one = 1 - std::sqrt(squares[static_cast<size_t>(rank - 1)]);
  if (!known) return quality;
  // In the basis of the singular vectors the result is the identity on the range. Next to what is
  // left out, directions are good only to its share in them.
  const Index clear = above(1000 * cut);
  rotate(work.view(), false, right, true);
  rotate(work.view(), true, left, true);
  for (Index k = 0; k < clear; ++k) {
    for (Index i = 0; i < rows; ++i) {
      quality.range = std::max(quality.range, std::abs(work(i, k) - (i == k ? 1 : 0)));
    }
  }
  for (Index k = most; k < n; ++k) {  // and zero on what is clearly below
    for (Index i = 0; i < rows; ++i) quality.null = std::max(quality.null, std::abs(work(i, k)));
  }
  return quality;
}

template <class T>
void check(const Spectrum& spectrum, Index rows, Index cols, Tally& tally) {
  const bool single = std::is_same_v<T, float>;
  const auto seed = static_cast<std::uint64_t>(rows * 131 + cols);
  const auto q = std::min(rows, cols) <= largest_small
                     ? polar_quality<T>(spectrum, rows, cols, 1, default_threads(), seed)
                     : large_quality<T>(spectrum, rows, cols, default_threads(), seed);
  const bool good = q.within(single);
  ++tally.cases;
  tally.failures += good ? 0 : 1;
  tally.worst.above_one = std::max(tally.worst.above_one, q.above_one);
  tally.worst.below_one = std::max(tally.worst.below_one, q.below_one);
  tally.worst.nuclear = std::max(tally.worst.nuclear, q.nuclear);
  tally.worst.range = std::max(tally.worst.range, q.range);
  tally.worst.null = std::max(tally.worst.null, q.null);
  if (!good) {
    std::printf(
        "FAILED %s %ldx%ld %s %g: above one %.1e, below one %.1e, nuclear %.1e, range %.1e, null "
        "%.1e\n",
        single ? "float" : "double", static_cast<long>(rows), static_cast<long>(cols),
        spectrum.name.c_str(), spectrum.condition, q.above_one, q.below_one, q.nuclear, q.range,
        q.null);
  }
}

template <class T>
std::vector<Spectrum> hard_spectra() {
  const double most = std::is_same_v<T, float> ? 1e6 : 1e10;
  return {{"gaussian"},          {"one over i"},     {"rank n/2"},
          {"log-uniform", most}, {"one tiny", most}, {"clustered", most}};
}

template <class T>
int run(const char* name, Index shortest_short, Index longest_short, Index longest_long) {
  Tally total;
  for (const Index n : {1, 2, 3, 7, 16, 33, 64, 100, 255, 513, 1024, 2048}) {
    if (n < shortest_short || n > longest_short) continue;
    Tally tally;
    const bool small = n <= largest_small;
    for (const Index m :
         small ? std::vector<Index>{n, n + 1, 2 * n + 3, 4 * n} : std::vector<Index>{n, 4 * n}) {
      if (m > longest_long) continue;
      for (const auto& spectrum : small ? all_spectra<T>() : hard_spectra<T>()) {
        check<T>(spectrum, n, m, tally);
        if (m != n) check<T>(spectrum, m, n, tally);
      }
    }
    const auto& w = tally.worst;
    std::printf(
        "%s, short side %4ld: %4d cases, %d failed; worst: above one %.1e, below one %.1e, "
        "nuclear %.1e, range %.1e, null %.1e\n",
        name, static_cast<long>(n), tally.cases, tally.failures, w.above_one, w.below_one,
        w.nuclear, w.range, w.null);
    std::fflush(stdout);
    total.failures += tally.failures;
  }
  return total.failures;
}

}  // namespace
}  // namespace normball::testing

int main(int argc, char** argv) {
  using namespace normball::testing;
  const long longest_short = argc > 1 ? std::atol(argv[1]) : 2048;
  const long longest_long = argc > 2 ? std::atol(argv[2]) : 8192;
  const long shortest_short = argc > 3 ? std::atol(argv[3]) : 1;
  const int failures = run<float>("float", shortest_short, longest_short, longest_long) +
                       run<double>("double", shortest_short, longest_short, longest_long);
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
