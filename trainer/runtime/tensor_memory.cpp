#include "trainer/runtime/tensor_memory.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace normball::trainer::runtime {
namespace {

constexpr size_t page = size_t(2) << 20, alignment = 64;

void* allocate_aligned(size_t bytes, size_t to) {
  void* memory = nullptr;
  const int error = ::posix_memalign(&memory, to, bytes);
  TORCH_CHECK(error == 0, "out of memory: a tensor needs ", bytes, " bytes");
  return memory;
}

class Blocks {
 public:
  void* take(size_t bytes) {
    const size_t size = (bytes + page - 1) / page * page;
    const std::lock_guard lock(mutex_);
    // The best of the unused blocks that are large enough and waste at most an eighth.
    auto best = unused_.end();
    for (auto block = unused_.begin(); block != unused_.end(); ++block) {
      const bool fits = block->size >= size && block->size - size <= size / 8;
      if (fits && (best == unused_.end() || block->size < best->size)) best = block;
    }
    Block block;
    if (best != unused_.end()) {
      block = *best;
      unused_.erase(best);
      memory_.unused -= block.size;
    } else {
      release_beyond(std::max(memory_.peak, memory_.live + size), size);
      block = {allocate_aligned(size, page), size};
      ::madvise(block.data, size, MADV_HUGEPAGE);  // without it only slower
    }
    memory_.live += block.size;
    memory_.peak = std::max(memory_.peak, memory_.live);
    sizes_[block.data] = block.size;
    return block.data;
  }

  // False if it is not one of these.
  bool give_back(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(data);
    if (found == sizes_.end()) return false;
    unused_.push_front({data, found->second});
    memory_.live -= found->second;
    memory_.unused += found->second;
    sizes_.erase(found);
    return true;
  }

  TensorMemory memory() {
    const std::lock_guard lock(mutex_);
    return memory_;
  }

 private:
  struct Block {
    void* data = nullptr;
    size_t size = 0;
  };

  // Frees the blocks unused for longest until `size` more stay within 1.1 times the peak.
  void release_beyond(size_t peak, size_t size) {
    while (!unused_.empty() && memory_.live + memory_.unused + size > peak + peak / 10) {
      memory_.unused -= unused_.back().size;
      std::free(unused_.back().data);
      unused_.pop_back();
    }
  }

  std::mutex mutex_;
  std::list<Block> unused_;  // the latest first
  std::unordered_map<void*, size_t> sizes_;
  TensorMemory memory_;
};

// Never destroyed: tensors may outlive it.
Blocks& blocks() {
  static auto& all = *new Blocks;
  return all;
}

void release(void* data) {
  const bool may_be_block = reinterpret_cast<std::uintptr_t>(data) % page == 0;
  if (!may_be_block || !blocks().give_back(data)) std::free(data);
}

// What it overrides depends on the version: LibTorch 1 allocates from a constant allocator,
// LibTorch 2 from one that can change, and it asks for copy_data.
class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) const {
    void* data = nullptr;
    if (bytes > 0) {
      data = bytes < page ? allocate_aligned(bytes, alignment) : blocks().take(bytes);
    }
    return {data, data, &release, c10::kCPU};
  }
  c10::DataPtr allocate(size_t bytes) { return std::as_const(*this).allocate(bytes); }
  c10::DeleterFnPtr raw_deleter() const { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const { std::memcpy(to, from, bytes); }
};

}  // namespace

void keep_tensor_memory() {
  static Allocator allocator;
  c10::SetCPUAllocator(&allocator);
}

TensorMemory tensor_memory() { return blocks().memory(); }

}  // namespace normball::trainer::runtime
