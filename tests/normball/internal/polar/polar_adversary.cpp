// Looks for the worst errors of the exact polar factor over random hard matrices; run by hand:
//   polar_adversary [cases] [largest short side] [first seed] [solver] [smallest short side] [type]
// `type` is float, double or both. A case depends on its seed, the short sides and the type alone,
// so that a long run can be made in pieces.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "adversary.h"

namespace normball::testing {
namespace {

struct Sizes {
  Index smallest, largest;
};

// The largest value of one kind of error, and where it was.
struct Worst {
  double value = 0;
  std::uint64_t seed = 0;

  void take(double candidate, std::uint64_t at) {
    if (candidate > value) *this = {candidate, at};
  }
  void print(const char* name) const {
    std::printf(", %s %.1e (seed %llu)", name, value, static_cast<unsigned long long>(seed));
  }
};

template <class T>
int run(const char* type, const PolarSolver& solver, long cases, Sizes sizes, std::uint64_t seed) {
  const bool single = std::is_same_v<T, float>;
  Worst error, above_one, below_one, pairing;
  int failures = 0;
  for (long i = 0; i < cases; ++i, ++seed) {
    const auto hard = hard_case(seed, sizes.smallest, sizes.largest, single ? 1e6 : 1e10);
    const auto q = hard_quality<T>(solver, convert<T>(hard.x));
    error.take(q.error, seed);
    above_one.take(q.above_one, seed);
    below_one.take(q.below_one, seed);
    pairing.take(q.pairing, seed);
    if (q.within(single, std::max(hard.x.rows, hard.x.cols))) continue;
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
  std::printf("%s: %ld cases, %d failed; worst", type, cases, failures);
  error.print("error");
  above_one.print("above one");
  below_one.print("below one");
  pairing.print("pairing");
  std::printf("\n");
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
  const long smallest = argc > 5 ? std::atol(argv[5]) : 2;
  const std::string_view type = argc > 6 ? argv[6] : "both";
  const Sizes sizes{smallest, largest};
  int failures = 0;
  if (type != "double") failures += run<float>("float", solver, cases, sizes, seed);
  if (type != "float") failures += run<double>("double", solver, cases, sizes, seed);
  return failures == 0 ? 0 : 1;
}
