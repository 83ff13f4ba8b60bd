#include <ATen/Version.h>
#include <torch/version.h>

#include "cli/doctor_head.h"
#include "trainer/ops/onednn.h"

namespace normball::cli {
namespace {

// LibTorch tells its kernels only within a text for people.
std::string libtorch_kernels() {
  const std::string config = at::show_config(), key = "CPU capability usage: ";
  const auto found = config.find(key);
  if (found == config.npos) return "";
  const auto begin = found + key.size();
  return ", kernels " + config.substr(begin, config.find('\n', begin) - begin);
}

}  // namespace

void add_training_libraries(std::vector<doctor::Finding>& findings) {
  const auto processor = this_processor();
  const std::string kernels = libtorch_kernels(), onednn = trainer::ops::onednn_description();
  // LibTorch itself may prefer AVX2 to AVX-512.
  const bool no_avx = !kernels.empty() && kernels.find("AVX2") == kernels.npos &&
                      kernels.find("AVX512") == kernels.npos;
  findings.push_back(doctor::library("LibTorch", TORCH_VERSION + kernels, processor.avx2 && no_avx,
                                     {"ATEN_CPU_CAPABILITY"}));
  const char* level = processor.avx512 ? "avx512" : processor.avx2 ? "avx2" : "";
  const bool lower = onednn.find(level) == onednn.npos && onednn.find("avx10") == onednn.npos;
  findings.push_back(
      doctor::library("oneDNN", onednn, lower, {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}));
}

}  // namespace normball::cli
