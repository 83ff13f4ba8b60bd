// Errors of the exact polar factor over a grid of shapes and spectra, against LAPACK in double
// precision. The whole grid takes long; run by hand:
//   polar_grid [longest short side] [longest long side]
#include <cstdio>
#include <cstdlib>

#include "normball/parallel.h"
#include "spectra.h"

namespace normball::testing {
namespace {

struct Tally {
  PolarQuality worst;
  int cases = 0, failures = 0;
};

template <class T>
void check(const Spectrum& spectrum, Index rows, Index cols, Tally& tally) {
  const bool single = std::is_same_v<T, float>;
  const auto seed = static_cast<std::uint64_t>(rows * 131 + cols);
  const auto q = polar_quality<T>(spectrum, rows, cols, 1, default_threads(), seed);
  const bool good = q.within(single);
  ++tally.cases;
  tally.failures += good ? 0 : 1;
  tally.worst.above_one = std::max(tally.worst.above_one, q.above_one);
  tally.worst.below_one = std::max(tally.worst.below_one, q.below_one);
  tally.worst.nuclear = std::max(tally.worst.nuclear, q.nuclear);
  tally.worst.range = std::max(tally.worst.range, q.range);
  if (!good) {
    std::printf(
        "FAILED %s %ldx%ld %s %g: above one %.1e, below one %.1e, nuclear %.1e, range %.1e\n",
        single ? "float" : "double", static_cast<long>(rows), static_cast<long>(cols),
        spectrum.name.c_str(), spectrum.condition, q.above_one, q.below_one, q.nuclear, q.range);
  }
}

template <class T>
int run(const char* name, Index longest_short, Index longest_long) {
  Tally total;
  for (const Index n : {1, 2, 3, 7, 16, 33, 64, 100, 255, 512, 768, 1024, 2048}) {
    if (n > longest_short) break;
    Tally tally;
    for (const Index m : {n, n + 1, 2 * n + 3, 4 * n}) {
      if (m > longest_long) continue;
      for (const auto& spectrum : all_spectra<T>()) {
        check<T>(spectrum, n, m, tally);
        if (m != n) check<T>(spectrum, m, n, tally);
      }
    }
    const auto& w = tally.worst;
    std::printf(
        "%s, short side %4ld: %4d cases, %d failed; worst: above one %.1e, below one %.1e, "
        "nuclear %.1e, range %.1e\n",
        name, static_cast<long>(n), tally.cases, tally.failures, w.above_one, w.below_one,
        w.nuclear, w.range);
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
  const int failures = run<float>("float", longest_short, longest_long) +
                       run<double>("double", longest_short, longest_long);
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
