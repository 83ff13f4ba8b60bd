// Runs a command at a level of instructions below the processor's own, in everything that
// multiplies here: our kernels, OpenBLAS, oneDNN, LibTorch.
//   at_level sse|avx2|avx512 COMMAND...
// Ends with 77, which ctest shows as skipped, where the processor does not have the level.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "normball/base/processor.h"

namespace {

struct Level {
  std::string_view name;
  const char *kernels, *openblas, *onednn, *aten;
  bool here;
};

}  // namespace

int main(int argc, char** argv) {
  const auto processor = normball::this_processor();
  // Prescott is what OpenBLAS takes processors for that it does not know.
  const Level levels[] = {
      {"sse", "generic", "PRESCOTT", "SSE41", "default", true},
      {"avx2", "avx2", "HASWELL", "AVX2", "avx2", processor.avx2},
      {"avx512", "avx512", "SKYLAKEX", "AVX512_CORE", "avx512", processor.avx512},
  };
  if (argc < 3) {
    std::fprintf(stderr, "usage: at_level sse|avx2|avx512 COMMAND...\n");
    return 2;
  }
  for (const auto& level : levels) {
    if (level.name != argv[1]) continue;
    if (!level.here) {
      std::printf("left out: this processor does not have the level %s\n", argv[1]);
      return 77;
    }
    ::setenv("NORMBALL_KERNELS", level.kernels, 1);
    ::setenv("OPENBLAS_CORETYPE", level.openblas, 1);
    ::setenv("ONEDNN_MAX_CPU_ISA", level.onednn, 1);
    ::setenv("ATEN_CPU_CAPABILITY", level.aten, 1);
    ::execvp(argv[2], argv + 2);
    std::perror(argv[2]);
    return 127;
  }
  std::fprintf(stderr, "at_level: no level '%s'; there are sse, avx2 and avx512\n", argv[1]);
  return 2;
}
