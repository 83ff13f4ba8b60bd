// Preloaded into a program (LD_PRELOAD), this makes one of its operations on the files of a run
// fail or end the process. The environment says which:
//   FAULT_PREFIX  operations on paths that begin so are counted, from 0
//   FAULT_AT      the number of the operation
//   FAULT_KIND    crash: the process is killed there; full: no space there and from then on
//   FAULT_LOG     a file that gets a line for each operation
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

std::array<std::string, 1024> names;  // of the open files that count
int operations = 0;

std::string_view setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool counts(const char* path) {
  const auto prefix = setting("FAULT_PREFIX");
  return !prefix.empty() && std::string_view(path).starts_with(prefix);
}

bool counts(int file) {
  return file >= 0 && static_cast<size_t>(file) < names.size() &&
         !names[static_cast<size_t>(file)].empty();
}

const char* name_of(int file) { return names[static_cast<size_t>(file)].c_str(); }

void remember(int file, const char* path) {
  if (file >= 0 && static_cast<size_t>(file) < names.size()) {
    names[static_cast<size_t>(file)] = counts(path) ? path : "";
  }
}

void log(const char* operation, const char* path) {
  const std::string where(setting("FAULT_LOG"));
  if (where.empty()) return;
  const std::string line = std::string(operation) + " " + path + "\n";
  const long file =
      ::syscall(SYS_openat, AT_FDCWD, where.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  ::syscall(SYS_write, file, line.data(), line.size());
  ::syscall(SYS_close, file);
}

enum class Need { Space, Nothing };  // on a full disk, only what needs space fails

// Whether this operation is to fail; never returns from a crash. `before` is done in any case.
template <class Before>
bool fails(const char* operation, const char* path, Need need, const Before& before) {
  log(operation, path);
  const int number = operations++;
  const auto at_text = setting("FAULT_AT");
  if (at_text.empty()) return false;
  const int at = std::atoi(at_text.data());
  const bool full = setting("FAULT_KIND") == "full";
  if (full ? number < at || need == Need::Nothing : number != at) return false;
  before();
  if (!full) ::kill(::getpid(), SIGKILL);
  errno = ENOSPC;
  return true;
}

bool fails(const char* operation, const char* path, Need need = Need::Space) {
  return fails(operation, path, need, [] {});
}

template <class Function>
Function* real(const char* name, Function*) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

int open_as(const char* name, const char* path, int flags, mode_t mode) {
  if (counts(path) && (flags & O_CREAT) != 0 && fails("create", path)) return -1;
  const int file = real(name, &::open)(path, flags, mode);
  remember(file, path);
  return file;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(arguments, unsigned)) : 0;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_as("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_as("open64", path, flags, mode);
}

int close(int file) {
  remember(file, "");
  return real("close", &::close)(file);
}

// Half of the bytes still go out, as a full disk or a crash may leave it.
ssize_t write(int file, const void* data, size_t bytes) {
  const auto write_now = real("write", &::write);
  const auto half = [&] { [[maybe_unused]] const auto put = write_now(file, data, bytes / 2); };
  if (counts(file) && fails("write", name_of(file), Need::Space, half)) return -1;
  return write_now(file, data, bytes);
}

int fsync(int file) {
  if (counts(file) && fails("sync", name_of(file))) return -1;
  return real("fsync", &::fsync)(file);
}

int ftruncate(int file, off_t bytes) noexcept {
  if (counts(file) && fails("cut", name_of(file), Need::Nothing)) return -1;
  return real("ftruncate", &::ftruncate)(file, bytes);
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (counts(path) && fails("mkdir", path)) return -1;
  return ::mkdirat(AT_FDCWD, path, mode);
}

int rename(const char* from, const char* to) noexcept {
  if (counts(to) && fails("rename", to)) return -1;
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int remove(const char* path) noexcept {
  if (counts(path) && fails("remove", path, Need::Nothing)) return -1;
  return real("remove", &::remove)(path);
}

}  // extern "C"
