// Scratch memory that is allocated once and then reused.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "normball/matrix_view.h"

namespace normball {

// A stack of cache-line aligned blocks. take() hands out memory that is valid until the enclosing
// Frame ends. Memory that does not fit is allocated separately, and the next outermost Frame starts
// with room for all of it.
class Workspace {
 public:
  class Frame {
   public:
    explicit Frame(Workspace& workspace)
        : workspace_(workspace), used_(workspace.used_), spilled_(workspace.spill_.size()) {
      if (used_ == 0 && spilled_ == 0) workspace.reserve(workspace.high_water_);
    }
    ~Frame() {
      workspace_.used_ = used_;
      workspace_.spill_.resize(spilled_);
      if (spilled_ == 0) workspace_.spilled_bytes_ = 0;
    }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Workspace& workspace_;
    std::size_t used_;
    std::size_t spilled_;
  };

  void reserve(std::size_t bytes) {
    if (bytes > capacity_) {
      capacity_ = 0;
      block_.reset();  // before the next, so that both never exist at once
      block_ = allocate(bytes);
      capacity_ = bytes;
    }
  }

  std::size_t high_water() const { return high_water_; }

  // Counts this much memory as needed, without taking it: for work whose need depends on the data.
  void expect(std::size_t bytes) {
    high_water_ = std::max(high_water_, used_ + spilled_bytes_ + bytes);
  }

  // The memory that a block of this many bytes takes.
  static constexpr std::size_t rounded(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }

  // Uninitialized. T must be trivial (numbers).
  template <class T>
  std::span<T> take(Index count) {
    const std::size_t bytes = rounded(static_cast<std::size_t>(count) * sizeof(T));
    std::byte* memory = nullptr;
    if (used_ + bytes <= capacity_) {
      memory = block_.get() + used_;
      used_ += bytes;
    } else {
      spill_.push_back(allocate(bytes));
      spilled_bytes_ += bytes;
      memory = spill_.back().get();
    }
    high_water_ = std::max(high_water_, used_ + spilled_bytes_);
    return {reinterpret_cast<T*>(memory), static_cast<std::size_t>(count)};
  }

  template <class T>
  MatrixView<T> matrix(Index rows, Index cols) {
    return {take<T>(rows * cols).data(), rows, cols};
  }

 private:
  static constexpr std::size_t alignment = 64;
  struct Free {
    void operator()(std::byte* memory) const {
      ::operator delete[](memory, std::align_val_t(alignment));
    }
  };
  using Block = std::unique_ptr<std::byte[], Free>;

  static Block allocate(std::size_t bytes) {
    return Block(new (std::align_val_t(alignment)) std::byte[std::max(bytes, alignment)]);
  }

  Block block_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::vector<Block> spill_;
  std::size_t spilled_bytes_ = 0;
  std::size_t high_water_ = 0;
};

}  // namespace normball
