#include "trainer/run/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "normball/base/error.h"
#include "trainer/files/file_system.h"

namespace normball::trainer::run {
namespace {

bool same_place(int directory, const std::filesystem::path& path) {
  struct stat own = {}, there = {};
  return ::fstat(directory, &own) == 0 && ::stat(path.c_str(), &there) == 0 &&
         own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& directory) {
  const auto path = directory / ".lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw files::FileError("RunLock", "opening", path, errno);
  if (::flock(file_, LOCK_EX | LOCK_NB) < 0) {
    const int error = errno;
    char holder[32] = {};
    const ssize_t got = ::pread(file_, holder, sizeof holder - 1, 0);
    ::close(file_);
    if (error != EWOULDBLOCK) throw files::FileError("RunLock", "locking", path, error);
    throw std::runtime_error(
        normball::error_message("RunLock", directory.string(), " is in use by process ",
                                got > 0 ? holder : "?", "; stop it, or choose another run.name"));
  }
  // Only for the message above: whether it can be written does not matter.
  const std::string own = std::to_string(::getpid());
  if (::ftruncate(file_, 0) == 0) {
    [[maybe_unused]] const ssize_t put = ::pwrite(file_, own.data(), own.size(), 0);
  }
  directory_ = ::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory_ < 0) {
    const int error = errno;
    ::close(file_);
    throw files::FileError("RunLock", "opening", directory, error);
  }
}

RunLock::~RunLock() {
  ::close(directory_);
  ::close(file_);
}

std::filesystem::path RunLock::place(const std::filesystem::path& known) const {
  if (same_place(directory_, known)) return known;
  std::error_code ignored;
  const auto now =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(directory_), ignored);
  if (!now.empty() && same_place(directory_, now)) return now;
  throw std::runtime_error(normball::error_message(
      "RunLock", known.string(),
      " was removed, or moved to another file system, while a run was trained in it; it was not ",
      "made again. If it was moved, --resume continues there from the last checkpoint"));
}

}  // namespace normball::trainer::run
