#include "trainer/train/huge_pages.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <cstdlib>

namespace normball::trainer {
namespace {

constexpr size_t page = size_t(2) << 20, smallest = 2 * page, alignment = 64;

class HugePageAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) const override {
    if (bytes == 0) return {nullptr, nullptr, &std::free, c10::kCPU};
    const bool huge = bytes >= smallest;
    void* memory = nullptr;
    if (::posix_memalign(&memory, huge ? page : alignment, bytes) != 0) {
      TORCH_CHECK(false, "out of memory: a tensor needs ", bytes, " bytes");
    }
    if (huge) ::madvise(memory, bytes, MADV_HUGEPAGE);  // without it only slower
    return {memory, memory, &std::free, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
};

}  // namespace

void use_huge_pages() {
  static HugePageAllocator allocator;
  c10::SetCPUAllocator(&allocator);
}

}  // namespace normball::trainer
