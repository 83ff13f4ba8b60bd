#include "normball/base/processor.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

namespace normball {
namespace {

enum class Level { Sse, Avx, Avx2, Avx512 };

// OpenBLAS's names, by the instructions that their float products use.
std::optional<Level> level_of(std::string_view core) {
  struct Row {
    std::string_view core;
    Level level;
  };
  constexpr Row rows[] = {
      {"Prescott", Level::Sse},      {"Core2", Level::Sse},
      {"Penryn", Level::Sse},        {"Dunnington", Level::Sse},
      {"Nehalem", Level::Sse},       {"Atom", Level::Sse},
      {"Nano", Level::Sse},          {"Katmai", Level::Sse},
      {"Coppermine", Level::Sse},    {"Northwood", Level::Sse},
      {"Banias", Level::Sse},        {"Athlon", Level::Sse},
      {"Opteron", Level::Sse},       {"Opteron_SSE3", Level::Sse},
      {"Barcelona", Level::Sse},     {"Bobcat", Level::Sse},
      {"Sandybridge", Level::Avx},   {"Bulldozer", Level::Avx},
      {"Piledriver", Level::Avx},    {"Steamroller", Level::Avx},
      {"Excavator", Level::Avx2},    {"Haswell", Level::Avx2},
      {"Zen", Level::Avx2},          {"SkylakeX", Level::Avx512},
      {"Cooperlake", Level::Avx512}, {"SapphireRapids", Level::Avx512},
  };
  const auto same = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
  for (const auto& row : rows) {
    if (std::ranges::equal(core, row.core, same)) return row.level;
  }
  return std::nullopt;
}

// "200000 100000" or "max 100000"; the quotient, or infinity.
double quota(const std::optional<std::string>& text) {
  double granted = 0, period = 0;
  if (text && std::istringstream(*text) >> granted >> period && granted > 0 && period > 0) {
    return granted / period;
  }
  return std::numeric_limits<double>::infinity();
}

// Whether a list such as "cpu,cpuacct" has the name.
bool has_name(const std::string& list, const std::string& name) {
  std::istringstream names(list);
  for (std::string one; std::getline(names, one, ',');) {
    if (one == name) return true;
  }
  return false;
}

// A group and all above it: each limits what is below. A container may see its host's path and
// only the root of its own.
double least_quota(std::string path, const std::function<double(const std::string&)>& quota_at) {
  double least = quota_at("");
  for (; path.size() > 1; path.resize(path.rfind('/'))) least = std::min(least, quota_at(path));
  return least;
}

}  // namespace

Processor this_processor() {
  Processor found;
#if defined(__x86_64__) || defined(__i386__)
  found.avx = __builtin_cpu_supports("avx");
  found.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  found.avx512 = found.avx2 && __builtin_cpu_supports("avx512f") &&
                 __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  found.amd = __builtin_cpu_is("amd");
#endif
  return found;
}

std::string blas_core() {
  using Name = char* (*)();
  const auto name = reinterpret_cast<Name>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  const char* text = name != nullptr ? name() : nullptr;
  return text != nullptr ? text : "";
}

std::string_view better_core_type(const Processor& processor, std::string_view core) {
  if (!core.empty()) {
    const auto chosen = level_of(core);
    const Level possible = processor.avx512 ? Level::Avx512
                           : processor.avx2 ? Level::Avx2
                           : processor.avx  ? Level::Avx
                                            : Level::Sse;
    if (!chosen || *chosen >= possible) return {};
    // Zen 4 computes 512 bits in two halves: its own AVX2 kernels are as fast (docs/doctor.md).
    if (processor.amd && *chosen == Level::Avx2) return {};
  }
  if (processor.avx512) return "SKYLAKEX";
  if (processor.avx2) return processor.amd ? "ZEN" : "HASWELL";
  if (processor.avx) return "SANDYBRIDGE";
  return {};
}

void warn_about_blas_once() {
  [[maybe_unused]] static const bool warned = [] {
    // A core type or silence that somebody asked for.
    if (std::getenv("NORMBALL_QUIET") || std::getenv("OPENBLAS_CORETYPE")) return false;
    const std::string core = blas_core();
    const auto better = better_core_type(this_processor(), core);
    if (better.empty()) return false;
    std::fprintf(stderr,
                 "normball: OpenBLAS does not know this processor and runs its kernels for %s, "
                 "several times slower "
                 "than it could; start the program with OPENBLAS_CORETYPE=%.*s (NORMBALL_QUIET=1 "
                 "silences this)\n",
                 core.c_str(), static_cast<int>(better.size()), better.data());
    return true;
  }();
}

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return std::nullopt;
  return text.str();
}

double cgroup_cpus(const ReadFile& read) {
  double least = std::numeric_limits<double>::infinity();
  std::istringstream groups(read("/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      path = line.substr(second + 1);
    if (controllers.empty()) {
      least = std::min(least, least_quota(path, [&](const std::string& at) {
                         return quota(read("/sys/fs/cgroup" + at + "/cpu.max"));
                       }));
    } else if (has_name(controllers, "cpu")) {
      least = std::min(least, least_quota(path, [&](const std::string& at) {
                         std::string group = "/sys/fs/cgroup/";
                         group.append(controllers).append(at);
                         std::string text = read(group + "/cpu.cfs_quota_us").value_or("");
                         text += ' ';
                         text += read(group + "/cpu.cfs_period_us").value_or("");
                         return quota(text);
                       }));
    }
  }
  return least;
}

int usable_cpus() {
  cpu_set_t cores;
  const int allowed = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  const double granted = std::ceil(cgroup_cpus());
  return granted < allowed ? std::max(1, static_cast<int>(granted)) : allowed;
}

}  // namespace normball
