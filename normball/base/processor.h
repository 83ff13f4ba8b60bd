// The instruction sets of this processor, the kernels that OpenBLAS chose for it, and how many
// cores this process may use. Internal.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace normball {

// Instruction sets that the operating system lets programs use. All false on other processors.
struct Processor {
  bool avx = false;
  bool avx2 = false;    // with FMA
  bool avx512 = false;  // F, CD, DQ, BW and VL, what OpenBLAS calls SkylakeX
  bool amd = false;
};
Processor this_processor();

// The kernels that OpenBLAS chose, e.g. "SkylakeX"; empty if the BLAS is another one.
std::string blas_core();

// The OPENBLAS_CORETYPE that fits the processor better than the chosen kernels, or nothing if these
// are good or not known. With an empty `core`: the one that fits the processor, whatever OpenBLAS
// would choose.
std::string_view better_core_type(const Processor& processor, std::string_view core);

// Prints one warning on standard error, at the first call in the process, if OpenBLAS itself chose
// poor kernels. NORMBALL_QUIET in the environment silences it.
void warn_about_blas_once();

// The contents of a file, or nothing if it cannot be read.
using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;
std::optional<std::string> read_file(const std::string& path);

// The processor time, in cores, that the control groups of this process grant it, e.g. 1.5;
// infinite without a limit. Supports both versions; `read` is given /proc/self/cgroup and files
// under /sys/fs/cgroup.
double cgroup_cpus(const ReadFile& read = read_file);

// The number of cores that this process may run on, but no more than the time granted, rounded up.
int usable_cpus();

}  // namespace normball
