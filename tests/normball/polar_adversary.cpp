// Looks for the worst errors of the exact polar factor over random hard matrices; run by hand:
//   polar_adversary [cases] [largest short side] [first seed] [solver]
#include <cstdio>
#include <cstdlib>

#include "adversary.h"

namespace normball::testing {
namespace {

template <class T>
int run(const char* type, const PolarSolver& solver, long cases, Index largest,
        std::uint64_t seed) {
  const bool single = std::is_same_v<T, float>;
  HardQuality worst;
  int failures = 0;
  for (long i = 0; i < cases; ++i, ++seed) {
    Random random(seed);
    // Mostly small: sizes are log-uniform.
    const Index n =
        2 + static_cast<Index>(std::pow(static_cast<double>(largest - 1), random.uniform())) - 1;
    const Index m = random.uniform() < 0.4 ? n : n + below(random, 3 * n);
    const bool tall = random.next() % 2 == 0;
    const auto hard = hard_matrix(tall ? m : n, tall ? n : m, single ? 1e6 : 1e10, random);
    const auto q = hard_quality<T>(solver, convert<T>(hard.x));
    worst.take_worst(q);
    if (q.within(single, m)) continue;
    ++failures;
    if (failures <= 30) {
      std::printf(
          "FAILED %s seed %llu, %ldx%ld, %s: rank %ld, condition %.1e, error %.1e, above %.1e, "
          "below %.1e, pairing %.1e\n",
          type, static_cast<unsigned long long>(seed), static_cast<long>(hard.x.rows),
          static_cast<long>(hard.x.cols), hard.name.c_str(), static_cast<long>(q.rank), q.condition,
          q.error, q.above_one, q.below_one, q.pairing);
    }
  }
  std::printf(
      "%s: %ld cases, %d failed; worst: error %.1e, above one %.1e, below one %.1e, pairing "
      "%.1e\n",
      type, cases, failures, worst.error, worst.above_one, worst.below_one, worst.pairing);
  std::fflush(stdout);
  return failures;
}

}  // namespace
}  // namespace normball::testing

int main(int argc, char** argv) {
  using namespace normball::testing;
  const long cases = argc > 1 ? std::atol(argv[1]) : 100000;
  const long largest = argc > 2 ? std::atol(argv[2]) : 100;
  const auto seed = static_cast<std::uint64_t>(argc > 3 ? std::atoll(argv[3]) : 1);
  const auto solver = normball::parse_polar_solver(argc > 4 ? argv[4] : "exact");
  const int failures = run<float>("float", solver, cases, largest, seed) +
                       run<double>("double", solver, cases, largest, seed);
  return failures == 0 ? 0 : 1;
}
