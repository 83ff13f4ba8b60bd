#include "trainer/files/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <sstream>
#include <system_error>
#include <vector>

#include "normball/base/error.h"

namespace normball::trainer::files {
namespace fs = std::filesystem;
namespace {

std::string_view remedy(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "; free space there, or choose another directory";
    case EACCES:
    case EPERM:
      return "; check its permissions, or choose another directory";
    case EROFS:
      return "; make it writable, or choose another directory";
    case ENOENT:
      return "; check the path";
    case ENOTDIR:
      return "; a part of the path is no directory: choose another one";
    case ENAMETOOLONG:
      return "; choose a shorter path";
    case EIO:
      return "; check the disk (dmesg), and use another one";
    default:
      return "";
  }
}

std::string describe(std::string_view where, std::string_view doing, const fs::path& path,
                     int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT;
  return normball::error_message(where, full ? "disk full while " : "error while ", doing, " ",
                                 path.string(), ": ", std::generic_category().message(error_number),
                                 remedy(error_number));
}

// The directory that holds an entry; "" for the current one.
fs::path above(const fs::path& path) {
  return path.has_filename() ? path.parent_path() : path.parent_path().parent_path();
}

// Removed at the end, the last one first.
struct Made {
  FileSystem& files;
  std::vector<fs::path> paths = {};

  ~Made() {
    for (; !paths.empty(); paths.pop_back()) files.remove(paths.back().c_str());
  }
};

}  // namespace

int FileSystem::open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags | O_CLOEXEC, mode);
}
ssize_t FileSystem::write(int file, const void* data, size_t bytes) {
  return ::write(file, data, bytes);
}
ssize_t FileSystem::write_at(int file, const void* data, size_t bytes, off_t offset) {
  return ::pwrite(file, data, bytes, offset);
}
int FileSystem::truncate(int file, off_t bytes) { return ::ftruncate(file, bytes); }
int FileSystem::sync(int file) { return ::fsync(file); }
int FileSystem::close(int file) { return ::close(file); }
int FileSystem::make_directory(const char* path) { return ::mkdir(path, 0777); }
int FileSystem::rename(const char* from, const char* to) { return ::rename(from, to); }
int FileSystem::exchange(const char* a, const char* b) {
  return ::renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}
int FileSystem::remove(const char* path) { return ::remove(path); }

FileSystem& FileSystem::real() {
  static FileSystem files;
  return files;
}

FileError::FileError(std::string_view where, std::string_view doing, const fs::path& path,
                     int error_number)
    : std::runtime_error(describe(where, doing, path, error_number)),
      path_(path),
      error_number_(error_number) {}

FileError::FileError(std::string_view where, const fs::path& path, int error_number,
                     std::string_view problem)
    : std::runtime_error(normball::error_message(where, path.string(), ": ", problem)),
      path_(path),
      error_number_(error_number) {}

FileError::FileError(const FileError& error, std::string_view note)
    : std::runtime_error(std::string(error.what()) + std::string(note)),
      path_(error.path_),
      error_number_(error.error_number_) {}

void read_in_pieces(const fs::path& path,
                    const std::function<void(std::span<const std::byte>)>& use) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw FileError("read_file", "opening", path, errno);
  const std::unique_ptr<const int, void (*)(const int*)> closer(&file,
                                                                [](const int* f) { ::close(*f); });
  std::vector<std::byte> buffer(1 << 20);
  while (true) {
    const ssize_t got = ::read(file, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw FileError("read_file", "reading", path, errno);
    if (got == 0) return;
    use({buffer.data(), static_cast<size_t>(got)});
  }
}

std::string read_small_file(const fs::path& path, std::uintmax_t limit) {
  std::string text;
  read_in_pieces(path, [&](std::span<const std::byte> piece) {
    if (text.size() + piece.size() > limit) {
      throw std::runtime_error(
          normball::error_message("read_file", path.string(), " is larger than the ", limit,
                                  " bytes allowed for this kind of file; is it the right one?"));
    }
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  return text;
}

void for_each_line(
    const fs::path& path, std::uintmax_t limit,
    const std::function<void(const std::string& line, const std::string& where)>& use) {
  if (!fs::exists(path)) return;
  std::istringstream text(read_small_file(path, limit));
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (!line.empty()) use(line, path.string() + ":" + std::to_string(number));
  }
}

void sync_directory(FileSystem& files, const fs::path& path) {
  const int file = files.open(path.c_str(), O_RDONLY | O_DIRECTORY, 0);
  if (file < 0) throw FileError("sync_directory", "opening", path, errno);
  const int result = files.sync(file);
  const int error = errno;
  files.close(file);
  if (result < 0) throw FileError("sync_directory", "syncing", path, error);
}

void make_directories(FileSystem& files, const fs::path& path) {
  if (path.empty() || fs::is_directory(path)) return;
  const fs::path parent = above(path);
  make_directories(files, parent);
  if (files.make_directory(path.c_str()) < 0 && errno != EEXIST) {
    throw FileError("make_directories", "creating the directory", path, errno);
  }
  if (!fs::is_directory(path)) throw FileError("make_directories", "creating", path, ENOTDIR);
  sync_directory(files, parent.empty() ? fs::path(".") : parent);
}

void check_directory(FileSystem& files, const fs::path& path) {
  std::vector<fs::path> missing;  // the innermost first
  for (fs::path at = path; !at.empty() && !fs::is_directory(at); at = above(at)) {
    missing.push_back(at);
  }
  Made made{files};
  for (; !missing.empty(); missing.pop_back()) {
    const fs::path& next = missing.back();
    if (files.make_directory(next.c_str()) < 0) {
      throw FileError("check_directory", "creating the directory", next,
                      errno == EEXIST ? ENOTDIR : errno);
    }
    made.paths.push_back(next);
  }
  const fs::path file = path / (".check-" + std::to_string(::getpid()));
  const int opened = files.open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (opened < 0) throw FileError("check_directory", "creating a file in", path, errno);
  files.close(opened);
  made.paths.push_back(file);
}

void remove_all(FileSystem& files, const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(fs::symlink_status(path, ignored))) {
    std::vector<fs::path> inside;
    for (const auto& entry : fs::directory_iterator(path)) inside.push_back(entry.path());
    for (const auto& entry : inside) remove_all(files, entry);
  }
  if (files.remove(path.c_str()) < 0 && errno != ENOENT) {
    throw FileError("remove_all", "removing", path, errno);
  }
}

}  // namespace normball::trainer::files
