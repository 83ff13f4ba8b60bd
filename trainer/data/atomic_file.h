// A file that appears under its name complete or not at all: written beside it, synced, renamed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace normball::trainer::data {

class AtomicFile {
 public:
  // Opens <path>.partial-<process>-<number>. Errors are DataError and name the path.
  explicit AtomicFile(std::string path);
  // Without a commit the file beside is removed and what stood under the name stays.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(std::span<const std::uint8_t> bytes);
  void append(std::string_view text);
  // Overwrites bytes already written, for headers that are known at the end.
  void overwrite(size_t offset, std::span<const std::uint8_t> bytes);
  void commit();

 private:
  [[noreturn]] void fail_writing() const;

  std::string path_;
  std::string partial_;
  int fd_ = -1;
};

// A name beside the path that no other call, in this process or another, gets.
std::string partial_name(const std::string& path);

void write_file(const std::string& path, std::string_view text);

// So that a rename inside survives a power cut.
void sync_directory(const std::string& directory);

}  // namespace normball::trainer::data
