// Large tensors on huge pages.
#pragma once

namespace normball::trainer {

// LibTorch's CPU tensors of 4 MiB or more come from memory that asks for huge pages, from now on.
// A training step allocates and frees its activations anew, and with small pages the kernel's
// faults cost a convolutional network a third of its time (docs/performance.md). For the program to
// call, before its first tensor; a library should not.
void use_huge_pages();

}  // namespace normball::trainer
