// What the tests of trainer/run share: scratch directories, and a file system that fails on demand.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "temporary_directory.h"
#include "trainer/files/file_system.h"

namespace normball::testing {

// In memory where there is some: the tests sync thousands of times.
class ScratchDirectory : public TemporaryDirectory {
 public:
  ScratchDirectory()
      : TemporaryDirectory(::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ::testing::TempDir()) {}
  std::filesystem::path operator/(const std::string& name) const { return path() / name; }
  std::filesystem::path path() const { return TemporaryDirectory::path(); }
};

// The operation with the given number (from 0) fails with an error, or ends the process at once. A
// failing or fatal write puts half of its bytes first, as a full disk or a crash may.
class FaultyFileSystem : public trainer::files::FileSystem {
 public:
  static constexpr int crash = -1;  // instead of an error number
  FaultyFileSystem(int fail_at, int error) : fail_at_(fail_at), error_(error) {}

  int operations() const { return count_; }
  bool reached() const { return count_ > fail_at_; }
  // A full disk stays full until something is removed: all later writes fail too.
  bool persistent = false;

  int open(const char* path, int flags, mode_t mode) override {
    return fails() ? -1 : trainer::files::FileSystem::open(path, flags, mode);
  }
  ssize_t write(int file, const void* data, size_t bytes) override {
    if (!due()) {
      ++count_;
      return trainer::files::FileSystem::write(file, data, bytes);
    }
    if (bytes > 1 && trainer::files::FileSystem::write(file, data, bytes / 2) < 0) return -1;
    return fails() ? -1 : 0;
  }
  int truncate(int file, off_t bytes) override {
    return fails() ? -1 : trainer::files::FileSystem::truncate(file, bytes);
  }
  int sync(int file) override { return fails() ? -1 : trainer::files::FileSystem::sync(file); }
  int close(int file) override {
    const bool failed = fails();
    const int result = trainer::files::FileSystem::close(file);
    return failed ? -1 : result;
  }
  int make_directory(const char* path) override {
    return fails() ? -1 : trainer::files::FileSystem::make_directory(path);
  }
  int rename(const char* from, const char* to) override {
    return fails() ? -1 : trainer::files::FileSystem::rename(from, to);
  }
  int exchange(const char* a, const char* b) override {
    return fails() ? -1 : trainer::files::FileSystem::exchange(a, b);
  }
  int remove(const char* path) override {
    return fails() ? -1 : trainer::files::FileSystem::remove(path);
  }

 private:
  bool due() const { return count_ == fail_at_ || (persistent && count_ > fail_at_); }
  bool fails() {
    const bool now = due();
    ++count_;
    if (!now) return false;
    if (error_ == crash) ::_exit(77);
    errno = error_;
    return true;
  }

  int fail_at_;
  int error_;
  int count_ = 0;
};

// How many inputs a test of damaged files tries; the environment can ask for more.
inline int mutations(int usual) {
  const char* wanted = std::getenv("NORMBALL_MUTATIONS");
  return wanted != nullptr ? std::atoi(wanted) : usual;
}

}  // namespace normball::testing
