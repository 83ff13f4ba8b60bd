#include "trainer/ops/onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include <string_view>

namespace normball::trainer::ops {

std::string onednn_description() {
  const auto* version = dnnl_version();
  std::string_view level = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
  constexpr std::string_view prefix = "cpu_isa_";
  if (level.starts_with(prefix)) level.remove_prefix(prefix.size());
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch) + ", instructions up to " + std::string(level);
}

}  // namespace normball::trainer::ops
