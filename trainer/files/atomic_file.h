// Files that are whole or not there: written, synced, and only then given their name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "trainer/files/file_system.h"

namespace normball::trainer::files {

// A new file being written. It counts its bytes and their CRC-32C. Destroyed before finish(), the
// file stays behind incomplete under its (temporary) name.
class OutputFile {
 public:
  enum class Existing { Replace, Refuse };
  OutputFile(FileSystem& files, std::filesystem::path path, Existing existing = Existing::Replace);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> data);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Changes bytes already written, for headers that are known at the end; crc() does not follow.
  void overwrite(std::uint64_t offset, std::span<const std::byte> data);
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

// A file written beside its place. Without a commit what was written is removed, and what stood
// under the name stays.
class AtomicFile {
 public:
  // Beside it under a name that no other process writes to: several may make the same file.
  AtomicFile(FileSystem& files, std::filesystem::path path);
  // Under a name that the caller knows to be its own.
  AtomicFile(FileSystem& files, std::filesystem::path path, std::filesystem::path temporary);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  OutputFile& contents() { return *file_; }
  // The name is durable once its directory is synced: here, or by the caller after several files.
  enum class Name { Synced, Unsynced };
  void commit(Name name = Name::Synced);

 private:
  FileSystem& files_;
  std::filesystem::path path_, temporary_;
  std::unique_ptr<OutputFile> file_;
};

// A name beside the path that no other call, in this process or another that runs, gets.
std::filesystem::path partial_name(const std::filesystem::path& path);

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
