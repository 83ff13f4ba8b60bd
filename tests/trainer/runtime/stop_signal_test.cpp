#include "trainer/runtime/stop_signal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "trainer/ops/product.h"

namespace normball::trainer::runtime {
namespace {

using std::chrono::microseconds;

bool soon(const auto& condition) {
  for (int i = 0; i < 60000 && !condition(); ++i) ::usleep(1000);
  return condition();
}

void send(int signal) { ::kill(::getpid(), signal); }

// With more than 128 terms to a sum oneDNN's kernels take the stack pointer for a buffer.
struct Product {
  static constexpr Index size = 256;
  std::vector<float> a = std::vector<float>(size * size, 0.5F), b = a, c = a;

  const std::vector<float>& operator()() {
    const auto view = [](std::vector<float>& values) {
      return MatrixView<float>{values.data(), size, size, size};
    };
    trainer::ops::product(view(a), trainer::ops::Op::None, view(b), trainer::ops::Op::None, 0,
                          view(c));
    return c;
  }
};

TEST(StopSignal, LeavesMatrixProductsAlone) {
  const StopSignals signals;
  Product product;
  const std::vector<float> expected = product();
  constexpr unsigned seed = 1;
  std::mt19937 random(seed);
  for (int round = 0; round < 1000; ++round) {
    const StopWish stop;
    const auto moment = microseconds(std::uniform_int_distribution(0, 500)(random));
    std::thread sender([moment] {
      std::this_thread::sleep_for(moment);
      send(SIGTERM);
    });
    while (!StopWish::requested()) {
      ASSERT_EQ(product(), expected) << "round " << round << " of seed " << seed;
    }
    sender.join();
  }
}

TEST(StopSignal, OnlyOneThreadTakesThem) {
  const StopSignals signals;
  Product()();
  const auto accepting = [] {
    int count = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream status(task.path() / "status");
      for (std::string word; status >> word;) {
        if (word != "SigBlk:") continue;
        status >> word;
        count += (std::stoull(word, nullptr, 16) & 1ULL << (SIGTERM - 1)) == 0;
      }
    }
    return count;
  };
  EXPECT_TRUE(soon([&] { return accepting() == 1; })) << accepting();
}

class StopSignalDeathTest : public ::testing::Test {
 protected:
  StopSignalDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(StopSignalDeathTest, WithoutAWishASignalEndsTheProcess) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          const StopSignals signals;
          send(signal);
          ::sleep(60);  // it ends before
        },
        ::testing::KilledBySignal(signal), "");
  }
}

TEST_F(StopSignalDeathTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        const StopWish stop;
        send(SIGHUP);
        if (!soon([] { return StopWish::requested(); })) ::_exit(1);
        send(SIGTERM);
        ::sleep(60);  // it ends before
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(StopSignal, WhatWasIgnoredStaysIgnored) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    const StopSignals signals;
    const StopWish stop;
    send(SIGHUP);
    ::usleep(50000);
    EXPECT_FALSE(StopWish::requested());
    send(SIGTERM);
    EXPECT_TRUE(soon([] { return StopWish::requested(); }));
  }
  std::signal(SIGHUP, before);
}

// Runs itself in a process with SIGHUP ignored and a library that takes it before main().
TEST(StopSignal, ALibraryThatTakesAnIgnoredSignalChangesNothing) {
  if (std::getenv("NORMBALL_EARLY_HANDLER") != nullptr) {
    const StopSignals signals;
    const StopWish stop;
    send(SIGHUP);
    ::usleep(50000);
    ASSERT_FALSE(StopWish::requested());
    return;
  }
  const auto before = std::signal(SIGHUP, SIG_IGN);
  const std::string command = "NORMBALL_EARLY_HANDLER=1 LD_PRELOAD=" EARLY_HANDLER " " +
                              std::filesystem::read_symlink("/proc/self/exe").string() +
                              " --gtest_filter=*ALibraryThatTakesAnIgnoredSignal* >/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::signal(SIGHUP, before);
}

TEST_F(StopSignalDeathTest, AClosedPipeIsAWishAndEndsTheProcessAfterwards) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        const StopWish stop;
        int ends[2];
        if (::pipe(ends) != 0 || ::close(ends[0]) != 0 || StopWish::requested()) ::_exit(1);
        for (int i = 0; i < 2; ++i) {
          if (::write(ends[1], "x", 1) != -1 || !StopWish::requested()) ::_exit(2);
        }
      },
      ::testing::KilledBySignal(SIGPIPE), "");
}

}  // namespace
}  // namespace normball::trainer::runtime
