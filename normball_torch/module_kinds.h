// What a module's parameters are, as their own modules say. Internal.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

namespace normball::optim {

// For each of module.named_parameters(), in its order, a kind that parse_kind() reads.
std::vector<std::string> kinds_of(const ::torch::nn::Module& module);

}  // namespace normball::optim
