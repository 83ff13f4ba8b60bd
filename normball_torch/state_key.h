// Where an optimizer of LibTorch keeps the state of a parameter. Internal.
#pragma once

#include <torch/torch.h>

#include <sstream>
#include <string>
#include <type_traits>

namespace normball::optim {

using StateMap = std::decay_t<decltype(std::declval<::torch::optim::Optimizer&>().state())>;
using StateKey = StateMap::key_type;

// LibTorch 1 keys its state by the tensor's address as text, LibTorch 2 by the address.
template <class Key = StateKey>
Key state_key(const ::torch::Tensor& tensor) {
  auto* const address = tensor.unsafeGetTensorImpl();
  if constexpr (std::is_same_v<Key, std::string>) {
    std::ostringstream text;
    text << address;
    return text.str();
  } else {
    return address;
  }
}

}  // namespace normball::optim
