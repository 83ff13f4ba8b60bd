// Which oneDNN multiplies here.
#pragma once

#include <string>

namespace normball::trainer::ops {

// "2.6.0, instructions up to avx512_core_bf16"
std::string onednn_description();

}  // namespace normball::trainer::ops
