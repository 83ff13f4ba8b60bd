#include "doctor/examine.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "doctor/loaded_libraries.h"
#include "normball/base/parallel.h"
#include "normball/internal/kernels/kernels.h"

namespace normball::doctor {
namespace {

void look_at_matrix_unit([[maybe_unused]] Facts& facts) {
#if defined(__x86_64__) || defined(__i386__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) facts.amx = (d >> 24 & 1) != 0;
  // Palette 1, in subleaf 1: bytes of all tiles in the low half of eax.
  if (__get_cpuid_count(0x1D, 1, &a, &b, &c, &d) != 0) facts.amx_palette = (a & 0xFFFF) != 0;
#endif
}

void look_at_blas(Facts& facts) {
  using Text = char* (*)();
  using Number = int (*)();
  if (const auto config = reinterpret_cast<Text>(dlsym(RTLD_DEFAULT, "openblas_get_config"))) {
    facts.blas_config = config();
  }
  if (const auto parallel =
          reinterpret_cast<Number>(dlsym(RTLD_DEFAULT, "openblas_get_parallel"))) {
    constexpr BlasThreads kinds[] = {BlasThreads::Sequential, BlasThreads::Pthreads,
                                     BlasThreads::OpenMp};
    if (const int kind = parallel(); kind >= 0 && kind < 3) facts.blas_threads = kinds[kind];
  }
  // On one thread it fights with nobody.
  const auto threads = reinterpret_cast<Number>(dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
  if (facts.blas_threads == BlasThreads::Pthreads && threads != nullptr && threads() == 1) {
    facts.blas_threads = BlasThreads::Sequential;
  }
  facts.blas_core = blas_core();
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

bool sleeps_while_waiting(std::string_view policy) {
  return std::ranges::equal(policy, std::string_view("passive"), {}, [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
}

Facts examine(const std::string& directory) {
  Facts facts;
  facts.cpu_model = cpu_model(read_file("/proc/cpuinfo").value_or(""));
  facts.processor = this_processor();
  facts.kernels = kernel_variant();
  facts.kernels_given = variable("NORMBALL_KERNELS");
  look_at_matrix_unit(facts);
  look_at_blas(facts);
  facts.core_type_given = variable("OPENBLAS_CORETYPE");
  const std::string maps = read_file("/proc/self/maps").value_or("");
  facts.blas_libraries = blas_libraries(maps);
  facts.openmp_runtimes = openmp_runtimes(maps);
  facts.waiting_threads_sleep = sleeps_while_waiting(variable("OMP_WAIT_POLICY"));
  facts.threads = default_threads();
  facts.machine_cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t cores;
  facts.allowed_cores =
      sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : facts.machine_cores;
  facts.granted_cores = cgroup_cpus();
  facts.huge_pages = read_file("/sys/kernel/mm/transparent_hugepage/enabled").value_or("");
  facts.disk_path = directory;
  struct statvfs disk {};
  facts.disk_free = statvfs(directory.c_str(), &disk) == 0
                        ? static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize)
                        : -1;
  return facts;
}

std::vector<std::string> core_types_to_compare(const Facts& facts) {
  if (facts.blas_core.empty() || !facts.processor.avx2) return {};
  std::vector<std::string> types = {facts.processor.amd ? "ZEN" : "HASWELL"};
  if (facts.processor.avx512) types.emplace_back("SKYLAKEX");
  return types;
}

}  // namespace normball::doctor
