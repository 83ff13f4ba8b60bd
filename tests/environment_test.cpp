#include "cli/environment.h"

#include "testing.h"

namespace normball::cli {
namespace {

const Surroundings good{.processor = {.avx = true, .avx2 = true, .avx512 = true},
                        .blas_core = "SkylakeX",
                        .cores = 8,
                        .usable = 8};

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

}  // namespace
}  // namespace normball::cli
