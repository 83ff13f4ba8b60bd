// The safetensors format: a header length (u64, little-endian), a JSON header
//   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {...}}
// and the tensors' bytes. Files are read where they lie, by memory mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/files/atomic_file.h"

namespace normball::trainer::run {

enum class Dtype { F64, F32, F16, BF16, I64, I32, U8, U16, BOOL };

std::string_view dtype_name(Dtype dtype);
size_t dtype_bytes(Dtype dtype);

struct TensorView {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

using Metadata = std::map<std::string, std::string>;

// Larger types first, so that every tensor is aligned for its type; otherwise in the given order.
// Throws std::invalid_argument, before anything is written, for a bad or repeated name or a shape
// that does not fit its data.
void write_safetensors(files::OutputFile& out, std::span<const TensorView> tensors,
                       const Metadata& metadata = {});

struct Safetensors {
  std::vector<TensorView> tensors;  // views into the bytes that were parsed
  Metadata metadata;
};

// Everything is checked: lengths, names, types, shapes, offsets without overlap or gap. Memory is
// bounded by a limit on the header (4 MiB, enough for some 40,000 tensors). `where` names the file
// in errors (std::runtime_error).
Safetensors parse_safetensors(std::span<const std::byte> file, std::string_view where);

// A mapped file; the views live as long as it.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::vector<TensorView>& tensors() const { return contents_.tensors; }
  const Metadata& metadata() const { return contents_.metadata; }
  bool contains(std::string_view name) const;
  // Throws and names the nearest tensor where there is none of this name.
  const TensorView& at(std::string_view name) const;
  // Also throws where type or shape differ: the message says both.
  const TensorView& at(std::string_view name, Dtype dtype,
                       std::span<const std::int64_t> shape) const;

 private:
  std::filesystem::path path_;
  std::span<const std::byte> mapped_;
  Safetensors contents_;
};

// "F32 [2, 3]"
std::string describe(Dtype dtype, std::span<const std::int64_t> shape);

}  // namespace normball::trainer::run
