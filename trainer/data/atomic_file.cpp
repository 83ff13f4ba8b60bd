#include "trainer/data/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "trainer/data/data_error.h"

namespace normball::trainer::data {
namespace {

constexpr const char* where = "write_file";

// Calls write(pointer, count, done) until all is written; false with errno set otherwise.
template <class Write>
bool write_all(std::span<const std::uint8_t> bytes, const Write& write) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = write(bytes.data() + done, bytes.size() - done, done);
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

std::string partial_name(const std::string& path) {
  static std::atomic<int> number{0};
  return path + ".partial-" + std::to_string(::getpid()) + "-" + std::to_string(number++);
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  do {  // a process of the same number may have died and left its file
    partial_ = partial_name(path_);
    fd_ = ::open(partial_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd_ < 0 && errno == EEXIST);
  if (fd_ < 0) {
    fail(where, path_, ": cannot be created: ", system_error_text(),
         "; check that the directory exists and is writable");
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(partial_.c_str());
}

void AtomicFile::fail_writing() const {
  fail(where, path_, ": cannot be written: ", system_error_text(),
       errno == ENOSPC ? "; free some space, nothing under that name was changed"
                       : "; nothing under that name was changed");
}

void AtomicFile::append(std::span<const std::uint8_t> bytes) {
  const bool done = write_all(bytes, [&](const std::uint8_t* data, size_t count, size_t) {
    return ::write(fd_, data, count);
  });
  if (!done) fail_writing();
}

void AtomicFile::append(std::string_view text) {
  append(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

void AtomicFile::overwrite(size_t offset, std::span<const std::uint8_t> bytes) {
  const bool done = write_all(bytes, [&](const std::uint8_t* data, size_t count, size_t before) {
    return ::pwrite(fd_, data, count, static_cast<off_t>(offset + before));
  });
  if (!done) fail_writing();
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail_writing();
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail_writing();
  ::close(std::exchange(fd_, -1));
  const auto parent = std::filesystem::path(path_).parent_path();
  sync_directory(parent.empty() ? "." : parent.string());
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.append(text);
  file.commit();
}

void sync_directory(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  const std::string problem = synced ? "" : system_error_text();
  if (fd >= 0) ::close(fd);
  if (!synced) fail(where, directory, ": cannot be synced: ", problem);
}

}  // namespace normball::trainer::data
