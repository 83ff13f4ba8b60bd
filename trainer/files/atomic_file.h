// Files that are whole or not there: written, synced, and only then given their name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "trainer/files/file_system.h"

namespace normball::trainer::files {

// A new file being written. It counts its bytes and their CRC-32C. Destroyed before finish(), the
// file stays behind incomplete under its (temporary) name.
class OutputFile {
 public:
  OutputFile(FileSystem& files, std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> data);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Syncs and closes. The contents are on the disk afterwards, the name not until its directory is
  // synced.
  void finish();

  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t crc() const { return crc_; }

 private:
  FileSystem& files_;
  std::filesystem::path path_;
  int file_ = -1;
  std::uint64_t bytes_ = 0;
  std::uint32_t crc_ = 0;
};

// Writes all of it, whatever the system takes at a time.
void write_fully(FileSystem& files, int file, std::span<const std::byte> data,
                 std::string_view where, const std::filesystem::path& path);

// The file has the old contents or the new ones, never a part.
void write_file_atomically(FileSystem& files, const std::filesystem::path& path,
                           std::string_view contents);
// The same with the contents of another file, of any size.
void copy_file_atomically(FileSystem& files, const std::filesystem::path& from,
                          const std::filesystem::path& to);

}  // namespace normball::trainer::files
