// The one seam between files and the operating system: whatever changes a file goes through it, so
// that a test can make any single operation fail or end the process there.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace normball::trainer::files {

// Each as the system call of its name: a negative result and errno on failure.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual ssize_t write(int file, const void* data, size_t bytes);
  virtual ssize_t write_at(int file, const void* data, size_t bytes, off_t offset);
  virtual int truncate(int file, off_t bytes);
  virtual int sync(int file);
  virtual int close(int file);
  virtual int make_directory(const char* path);
  virtual int rename(const char* from, const char* to);
  // Swaps two entries in one operation (Linux only; not on every file system).
  virtual int exchange(const char* a, const char* b);
  virtual int remove(const char* path);  // a file or an empty directory

  static FileSystem& real();
};

// An operation on a file failed. The text names the path, the cause and the remedy.
class FileError : public std::runtime_error {
 public:
  FileError(std::string_view where, std::string_view doing, const std::filesystem::path& path,
            int error_number);
  // A file that is not of the kind it must be.
  FileError(std::string_view where, const std::filesystem::path& path, int error_number,
            std::string_view problem);
  // The same error with what is left intact added to its text.
  FileError(const FileError& error, std::string_view note);

  const std::filesystem::path& path() const { return path_; }
  int error_number() const { return error_number_; }

 private:
  std::filesystem::path path_;
  int error_number_;
};

// Hands the file over in pieces of at most 1 MiB.
void read_in_pieces(const std::filesystem::path& path,
                    const std::function<void(std::span<const std::byte>)>& use);

// A whole small file. One larger than the limit is refused before anything is allocated.
std::string read_small_file(const std::filesystem::path& path, std::uintmax_t limit);
// The lines of such a file that are not empty, with their place ("results.jsonl:3"); none where
// there is no file.
void for_each_line(
    const std::filesystem::path& path, std::uintmax_t limit,
    const std::function<void(const std::string& line, const std::string& where)>& use);

// Durable once it returns: names created in or moved into the directory survive a power cut.
void sync_directory(FileSystem& files, const std::filesystem::path& path);

// Creates the directory and those above it, each entry synced.
void make_directories(FileSystem& files, const std::filesystem::path& path);

// Throws where make_directories() would, or where the directory takes no files. Leaves nothing.
void check_directory(FileSystem& files, const std::filesystem::path& path);

// Removes a file or a directory with all inside; what does not exist is fine.
void remove_all(FileSystem& files, const std::filesystem::path& path);

}  // namespace normball::trainer::files
