#include "normball/parallel.h"

#include <omp.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "testing.h"

namespace normball::testing {
namespace {

TEST(ParallelFor, VisitsEachIndexOnceForAnyNumberOfThreads) {
  for (const int threads : {1, 2, 4, 7}) {
    for (const Index count : {0, 1, 2, 5, 100}) {
      std::vector<int> visits(static_cast<size_t>(count));
      parallel_for(count, threads, [&](Index i, int thread) {
        EXPECT_LT(thread, threads);
        ++visits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(count), 1));
    }
  }
}

TEST(ParallelFor, ResultsWrittenByTheTeamAreSeenByTheCaller) {
  std::vector<double> values(1000);
  for (int round = 0; round < 50; ++round) {
    parallel_for(1000, 2, [&](Index i, int) { values[static_cast<size_t>(i)] += 1; });
    EXPECT_EQ(sum_of(values), 1000.0 * (round + 1));
  }
}

TEST(ParallelFor, RethrowsAfterAllHaveEnded) {
  std::atomic<int> ran = 0;
  EXPECT_THROW(parallel_for(20, 2,
                            [&](Index i, int) {
                              ++ran;
                              if (i == 3) throw std::runtime_error("three");
                            }),
               std::runtime_error);
  EXPECT_EQ(ran, 20);
}

TEST(ParallelFor, LeavesTheCallersThreadSettingAlone) {
  const int before = omp_get_max_threads();
  for (const int threads : {1, 2}) {
    parallel_for(8, threads, [](Index, int) {});
    EXPECT_EQ(omp_get_max_threads(), before);
  }
}

TEST(ParallelFor, ServesSeveralCallersAndNesting) {
  std::atomic<int> total = 0;
  const auto caller = [&] {
    for (int round = 0; round < 20; ++round) {
      parallel_for(10, 2, [&](Index, int) { parallel_for(3, 2, [&](Index, int) { ++total; }); });
    }
  };
  std::thread a(caller), b(caller);
  a.join();
  b.join();
  EXPECT_EQ(total, 2 * 20 * 10 * 3);
}

}  // namespace
}  // namespace normball::testing
