#include "cli/environment.h"

#include "testing.h"

namespace normball::cli {
namespace {

const Surroundings good{.processor = {.avx = true, .avx2 = true, .avx512 = true},
                        .blas_core = "SkylakeX",
                        .cores = 8,
                        .usable = 8,
                        .computes = false};

std::vector<std::string> wanted(const Surroundings& around, const std::string& set = "") {
  std::vector<std::string> texts;
  for (const auto& setting :
       wanted_settings(around, [&](const std::string& name) { return name == set; })) {
    EXPECT_FALSE(setting.reason.empty());
    texts.push_back(setting.variable + "=" + setting.value);
  }
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Environment, AGoodMachineNeedsNothing) { EXPECT_EQ(wanted(good), Texts{}); }

TEST(Environment, AnUnknownXeonGetsItsKernels) {
  auto around = good;
  around.blas_core = "Prescott";
  EXPECT_EQ(wanted(around), Texts{"OPENBLAS_CORETYPE=SKYLAKEX"});
  EXPECT_EQ(wanted(around, "OPENBLAS_CORETYPE"), Texts{}) << "the user's choice counts";
}

TEST(Environment, AnotherBlasIsLeftAlone) {
  auto around = good;
  around.blas_core = "";
  EXPECT_EQ(wanted(around), Texts{});
}

TEST(Environment, AControlGroupLimitsTheThreads) {
  auto around = good;
  around.usable = 2;
  EXPECT_EQ(wanted(around), Texts{"OMP_NUM_THREADS=2"});
  EXPECT_EQ(wanted(around, "OMP_NUM_THREADS"), Texts{});
}

TEST(Environment, WaitingThreadsSleepSoonWhereTheyAreUsed) {
  auto around = good;
  around.computes = true;
  EXPECT_EQ(wanted(around), Texts{"GOMP_SPINCOUNT=1000"});
  EXPECT_EQ(wanted(around, "GOMP_SPINCOUNT"), Texts{});
  EXPECT_EQ(wanted(around, "OMP_WAIT_POLICY"), Texts{});
  around.cores = around.usable = 1;
  EXPECT_EQ(wanted(around), Texts{}) << "one thread waits for nobody";
  EXPECT_TRUE(surroundings("train").computes);
  EXPECT_FALSE(surroundings("config").computes);
}

}  // namespace
}  // namespace normball::cli
