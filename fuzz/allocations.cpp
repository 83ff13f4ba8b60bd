#include "fuzz/allocations.h"

#include <atomic>
#include <cstdlib>

namespace {

std::atomic<std::ptrdiff_t> live{0}, peak{0};  // signed: what was taken unseen may be freed
std::ptrdiff_t at_start = 0;

void took(std::size_t bytes) {
  const std::ptrdiff_t now = live += static_cast<std::ptrdiff_t>(bytes);
  if (now > peak) peak = now;
}

}  // namespace

namespace normball::fuzz {

std::size_t peak_allocation() { return static_cast<std::size_t>(peak - at_start); }

}  // namespace normball::fuzz

#ifdef NORMBALL_SANITIZED

// Of the sanitizers' runtime; g++ has it without its header, <sanitizer/allocator_interface.h>.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*,
                                                                  std::size_t),
                                                         void (*)(const volatile void*));
extern "C" std::size_t __sanitizer_get_allocated_size(const volatile void*);

namespace {

void on_malloc(const volatile void*, std::size_t bytes) { took(bytes); }
void on_free(const volatile void* p) {
  if (p != nullptr) live -= static_cast<std::ptrdiff_t>(__sanitizer_get_allocated_size(p));
}

}  // namespace

void normball::fuzz::watch_allocations() {
  static const bool installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) != 0;
  if (!installed) std::abort();
  at_start = live;
  peak = at_start;
}

#else

#include <malloc.h>

#include <new>

// Not inlined: the compiler would take malloc and delete for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* p = std::malloc(bytes);
  if (p == nullptr) throw std::bad_alloc();
  took(::malloc_usable_size(p));
  return p;
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  live -= static_cast<std::ptrdiff_t>(::malloc_usable_size(p));
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { operator delete(p); }

void normball::fuzz::watch_allocations() {
  at_start = live;
  peak = at_start;
}

#endif
