#include "normball/base/processor.h"

#include <map>

#include "testing.h"

namespace normball {
namespace {

constexpr Processor sse{}, avx{.avx = true}, intel_avx2{.avx = true, .avx2 = true},
    amd_avx2{.avx = true, .avx2 = true, .amd = true},
    xeon{.avx = true, .avx2 = true, .avx512 = true},
    zen4{.avx = true, .avx2 = true, .avx512 = true, .amd = true};

TEST(CoreType, IsReplacedWhereItIsBelowTheProcessor) {
  struct Row {
    const char* what;
    Processor processor;
    std::string_view core, expected;
  };
  const Row rows[] = {
      {"a Xeon that OpenBLAS does not know", xeon, "Prescott", "SKYLAKEX"},
      {"the same, half known", xeon, "Haswell", "SKYLAKEX"},
      {"a known Xeon", xeon, "SkylakeX", ""},
      {"a newer one", xeon, "SapphireRapids", ""},
      {"capital letters, as in the variable", xeon, "COOPERLAKE", ""},
      {"Zen 4 as started", zen4, "Cooperlake", ""},
      {"Zen 4 with AVX2, as fast", zen4, "Zen", ""},
      {"Zen 5, unknown", zen4, "Prescott", "SKYLAKEX"},
      {"EPYC 7003", amd_avx2, "Zen", ""},
      {"EPYC 7003, unknown", amd_avx2, "Barcelona", "ZEN"},
      {"AVX2 by Intel, unknown", intel_avx2, "Prescott", "HASWELL"},
      {"AVX only", avx, "Nehalem", "SANDYBRIDGE"},
      {"SSE only", sse, "Prescott", ""},
      {"SSE only, unknown", sse, "", ""},
      {"a name from the future", xeon, "DiamondRapids", ""},
      {"before it is loaded", xeon, "", "SKYLAKEX"},
      {"before it is loaded, AMD", amd_avx2, "", "ZEN"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(better_core_type(row.processor, row.core), row.expected) << row.what;
  }
}

TEST(CoreType, OfThisMachineIsAFixedPoint) {
  const auto processor = this_processor();
  const auto type = better_core_type(processor, "");
  EXPECT_EQ(better_core_type(processor, type), "") << type;
}

double cpus(const std::map<std::string, std::string>& files) {
  return cgroup_cpus([&](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(ControlGroup, LimitOfVersion2) {
  const std::string self = "/proc/self/cgroup", root = "/sys/fs/cgroup";
  EXPECT_EQ(cpus({}), INFINITY);
  EXPECT_EQ(cpus({{self, "0::/\n"}}), INFINITY);
  EXPECT_EQ(cpus({{self, "0::/\n"}, {root + "/cpu.max", "150000 100000\n"}}), 1.5);
  EXPECT_EQ(cpus({{self, "0::/a\n"}, {root + "/a/cpu.max", "max 100000\n"}}), INFINITY);
  // The least of a group and those above it.
  EXPECT_EQ(cpus({{self, "0::/a/b\n"},
                  {root + "/a/b/cpu.max", "400000 100000\n"},
                  {root + "/a/cpu.max", "200000 100000\n"}}),
            2);
  // A container that sees its host's path.
  EXPECT_EQ(cpus({{self, "0::/docker/0123\n"}, {root + "/cpu.max", "50000 100000\n"}}), 0.5);
}

TEST(ControlGroup, LimitOfVersion1) {
  const std::string self = "/proc/self/cgroup", root = "/sys/fs/cgroup/cpu,cpuacct";
  const std::string groups = "12:memory:/a\n4:cpu,cpuacct:/a\n3:cpuset:/\n0::/\n";
  EXPECT_EQ(cpus({{self, groups}}), INFINITY);
  EXPECT_EQ(cpus({{self, groups},
                  {root + "/a/cpu.cfs_quota_us", "300000\n"},
                  {root + "/a/cpu.cfs_period_us", "100000\n"}}),
            3);
  EXPECT_EQ(cpus({{self, groups},
                  {root + "/a/cpu.cfs_quota_us", "-1\n"},
                  {root + "/a/cpu.cfs_period_us", "100000\n"}}),
            INFINITY);
}

TEST(ControlGroup, OfThisProcessLeavesAtLeastOneCore) { EXPECT_GE(usable_cpus(), 1); }

}  // namespace
}  // namespace normball
