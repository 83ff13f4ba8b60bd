#include "cli/wait_policy.h"

#include <cstdlib>

namespace normball::cli {

std::vector<std::pair<std::string, std::string>> set_wait_policy() {
  for (const char* chosen : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    if (std::getenv(chosen) != nullptr) return {};
  }
  return {{"GOMP_SPINCOUNT", "1000"}};
}

}  // namespace normball::cli
