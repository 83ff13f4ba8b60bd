// Weights that are stepped in each way that the adapter has.
#pragma once

#include "support.h"

namespace support {

// Who steps the tensors: the core, tensor operations, or the core in two parts.
enum class Way { Core, Aten, Parts };
inline const std::vector<Way> ways = {Way::Core, Way::Aten, Way::Parts};

inline std::vector<Tensor> weights(Way way, torch::ScalarType type = torch::kFloat64) {
  torch::manual_seed(3);
  std::vector<Tensor> result;
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{7, 5}, {12, 4}, {5}, {3, 9}}) {
    const bool other = way == Way::Parts && result.size() % 2 == 1;
    result.push_back((torch::randn(sizes, torch::kFloat64) * 0.3)
                         .to(other ? torch::kFloat32 : type)
                         .set_requires_grad(true));
  }
  return result;
}

}  // namespace support
