// CRC-32C (Castagnoli): finds every single flipped bit and every burst up to 32 bits. TensorBoard
// records need it as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace normball::trainer::files {

// Continues from `crc`, so that pieces can be added one after the other.
std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t crc = 0);
std::uint32_t crc32c(std::string_view text, std::uint32_t crc = 0);

// Eight lower-case hexadecimal digits.
std::string checksum_text(std::uint32_t crc);

struct FileChecksum {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
};

// Reads the whole file in pieces; an unreadable file is a FileError.
FileChecksum file_checksum(const std::filesystem::path& path);

// The portable form, where the processor has no instruction for it.
std::uint32_t crc32c_table(std::span<const std::byte> data, std::uint32_t crc);

}  // namespace normball::trainer::files
