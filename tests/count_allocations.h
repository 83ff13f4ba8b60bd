// Counts heap allocations by standing in for malloc, in every library of the process. For one
// source of a program.
#pragma once

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace {
std::atomic<long> allocations = 0;
std::atomic<long> aligned_until_failure = -1;  // workspaces ask for aligned memory
}  // namespace

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
  ++allocations;
  return __libc_realloc(memory, size);
}
void* memalign(size_t alignment, size_t size) {
  ++allocations;
  if (aligned_until_failure >= 0 && aligned_until_failure-- == 0) return nullptr;
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  *out = memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
}
