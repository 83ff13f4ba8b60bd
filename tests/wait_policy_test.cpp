#include "cli/wait_policy.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace normball::cli {
namespace {

TEST(WaitPolicy, IsSetOnlyWhereTheUserHasNotChosen) {
  ::unsetenv("OMP_WAIT_POLICY");
  ::unsetenv("GOMP_SPINCOUNT");
  const auto variables = set_wait_policy();
  ASSERT_EQ(variables.size(), 1u);
  EXPECT_EQ(variables[0].first, "GOMP_SPINCOUNT");
  EXPECT_GT(std::stoi(variables[0].second), 0);
  // Once they are set nothing is left to do, so a program that starts itself again does so once.
  ::setenv(variables[0].first.c_str(), variables[0].second.c_str(), 1);
  EXPECT_TRUE(set_wait_policy().empty());
  ::unsetenv("GOMP_SPINCOUNT");
  ::setenv("OMP_WAIT_POLICY", "active", 1);
  EXPECT_TRUE(set_wait_policy().empty());
}

}  // namespace
}  // namespace normball::cli
