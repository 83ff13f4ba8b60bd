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
  findings.push_back({"LibTorch", doctor::State::Good, TORCH_VERSION + libtorch_kernels()});
  findings.push_back({"oneDNN", doctor::State::Good, trainer::ops::onednn_description()});
}

}  // namespace normball::cli
