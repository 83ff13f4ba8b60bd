#include "trainer/run/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "normball/error.h"
#include "trainer/files/file_system.h"

namespace normball::trainer::run {

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
        normball::detail::message("RunLock", directory.string(), " is in use by process ",
                                  got > 0 ? holder : "?", "; stop it, or choose another run.name"));
  }
  // Only for the message above: whether it can be written does not matter.
  const std::string own = std::to_string(::getpid());
  if (::ftruncate(file_, 0) == 0) {
    [[maybe_unused]] const ssize_t put = ::pwrite(file_, own.data(), own.size(), 0);
  }
}

RunLock::~RunLock() { ::close(file_); }

}  // namespace normball::trainer::run
