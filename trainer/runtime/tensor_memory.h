// Memory for large tensors, kept from step to step.
#pragma once

#include <cstddef>

namespace normball::trainer::runtime {

// From now on LibTorch's CPU tensors of 2 MiB or more lie on huge pages, and what they leave is
// kept for the next ones. A step allocates the same activations as the one before; with malloc they
// go back to the kernel in between, which clears every page anew: a third of a convolutional
// network's time and more (docs/performance.md). What is held never exceeds 1.1 times the most that
// tensors needed at once. For a program to call before its first tensor; a library should not.
void keep_tensor_memory();

// Of the large tensors, in bytes.
struct TensorMemory {
  std::size_t live = 0;    // in use
  std::size_t peak = 0;    // the most that was in use
  std::size_t unused = 0;  // kept for the next ones
};
TensorMemory tensor_memory();

}  // namespace normball::trainer::runtime
