#include "normball/base/parallel.h"

#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST(ParallelFor, DefaultThreadsHaveALimit) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(100000);
  EXPECT_EQ(default_threads(), max_threads);
  omp_set_num_threads(before);
  EXPECT_EQ(default_threads(), before);
}

// OpenMP's team is gone in the child, which would wait for it for ever.
TEST(ParallelFor, AForkedChildRunsOnOneThread) {
  parallel_for(8, 2, [](Index, int) {});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    Random random(1);
    const auto d = gaussian<double>(300, 300, random);
    Matrix<double> out(300, 300);
    lmo(Norm(Spectral{}), d.view(), out.view());
    int visits = 0;
    parallel_for(100, 2, [&](Index, int thread) { visits += thread == 0; });
    _exit(visits == 100 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::atomic<int> others = 0;  // the parent still has its team
  for (int round = 0; others == 0 && round < 10000; ++round) {
    parallel_for(64, 2, [&](Index, int thread) {
      others += thread;
      std::this_thread::yield();
    });
  }
  EXPECT_GT(others, 0);
}

TEST(DefaultThreads, AreOpenMPsUntilOthersAreChosen) {
  const int openmp = omp_get_max_threads();
  EXPECT_EQ(default_threads(), openmp);
  set_default_threads(openmp + 1);
  EXPECT_EQ(default_threads(), openmp + 1);
  EXPECT_EQ(omp_get_max_threads(), openmp);
  int elsewhere = 0;
  std::thread([&] { elsewhere = default_threads(); }).join();
  EXPECT_EQ(elsewhere, openmp + 1);
  EXPECT_THROW(set_default_threads(-1), std::invalid_argument);
  EXPECT_THROW(set_default_threads(max_threads + 1), std::invalid_argument);
  EXPECT_EQ(chosen_threads(), openmp + 1);
  set_default_threads(0);
  EXPECT_EQ(default_threads(), openmp);
}

}  // namespace
}  // namespace normball::testing
