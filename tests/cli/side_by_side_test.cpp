#include "cli/side_by_side.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "tests/temporary_directory.h"

namespace normball::cli {
namespace {

class SideBySide : public ::testing::Test {
 protected:
  Job shell(const std::string& name, const std::string& text) const {
    return {.name = name, .command = {"sh", "-c", text}, .log = directory_ / name};
  }
  // What went wrong with each of those that ended.
  std::map<size_t, std::string> run(const std::vector<Job>& jobs,
                                    const JobHopeless& hopeless = {}) {
    std::map<size_t, std::string> failures;
    run_side_by_side(
        jobs, 2,
        [&](size_t job, const std::string& failure) {
          failures[job] = failure;
          return true;
        },
        hopeless);
    return failures;
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(SideBySide, FailuresSayHowAJobEnded) {
  const auto failures = run({shell("well", "true"), shell("code", "echo because; exit 3"),
                             shell("signal", "kill -TERM $$")});
  ASSERT_EQ(failures.size(), 3u);
  EXPECT_EQ(failures.at(0), "");
  EXPECT_NE(failures.at(1).find("code ended with exit code 3"), std::string::npos);
  EXPECT_NE(failures.at(1).find("because"), std::string::npos);
  EXPECT_NE(failures.at(2).find("signal was ended by signal 15"), std::string::npos);
}

// The log of a run that goes on tells of all its starts; a failure only of the one that failed.
TEST_F(SideBySide, LogsGoOnWhereTheyEnded) {
  EXPECT_EQ(run({shell("job", "echo first")}).at(0), "");
  EXPECT_EQ(run({shell("job", "echo second >&2")}).at(0), "");
  const auto failures = run({shell("job", "echo third; exit 1")});
  EXPECT_NE(failures.at(0).find("job:\n  third"), std::string::npos) << failures.at(0);
  EXPECT_EQ(failures.at(0).find("second"), std::string::npos) << failures.at(0);
  EXPECT_EQ(testing::read(directory_ / "job"), "first\nsecond\nthird\n");
}

// One that has finished already dies by the signal instead of stopping in good order.
TEST_F(SideBySide, AHopelessJobHasEndedHoweverItTakesTheSignal) {
  const auto begin = std::chrono::steady_clock::now();
  const auto failures =
      run({shell("dies", "exec sleep 60"), shell("stops", "trap 'exit 5' TERM; sleep 60 & wait"),
           shell("well", "true")},
          [](size_t job) { return job < 2; });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(50));
  EXPECT_EQ(failures, (std::map<size_t, std::string>{{0, ""}, {1, ""}, {2, ""}}));
}

}  // namespace
}  // namespace normball::cli
