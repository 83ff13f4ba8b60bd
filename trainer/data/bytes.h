// Read-only bytes with an owner: a mapped file, which costs no memory and may exceed 2 GiB, or a
// vector. Copies and slices share the owner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace normball::trainer::data {

class Bytes {
 public:
  Bytes() = default;

  template <class T>
  static Bytes own(std::vector<T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    return {owner,
            {reinterpret_cast<const std::uint8_t*>(owner->data()), owner->size() * sizeof(T)}};
  }

  // Throws DataError unless the path names a regular file that can be read.
  static Bytes map(const std::string& path);

  std::span<const std::uint8_t> span() const { return view_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(view_.data()), view_.size()};
  }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  std::uint8_t operator[](size_t i) const { return view_[i]; }

  // The caller has checked that first + count <= size().
  Bytes slice(size_t first, size_t count) const { return {owner_, view_.subspan(first, count)}; }

 private:
  Bytes(std::shared_ptr<const void> owner, std::span<const std::uint8_t> view)
      : owner_(std::move(owner)), view_(view) {}

  std::shared_ptr<const void> owner_;
  std::span<const std::uint8_t> view_;
};

// A small file that is read whole; larger than the limit is an error.
Bytes read_small_file(const std::string& path, size_t limit);

}  // namespace normball::trainer::data
