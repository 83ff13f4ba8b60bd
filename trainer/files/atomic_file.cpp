#include "trainer/files/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "trainer/files/checksum.h"

namespace normball::trainer::files {
namespace fs = std::filesystem;
namespace {

// Calls write(data, bytes) until all is written. Linux takes at most 2 GiB at a time.
template <class Write>
void write_pieces(std::span<const std::byte> data, std::string_view where, const fs::path& path,
                  const Write& write) {
  while (!data.empty()) {
    const ssize_t put = write(data.data(), std::min<size_t>(data.size(), 1u << 30));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw FileError(where, "writing", path, errno);
    data = data.subspan(static_cast<size_t>(put));
  }
}

fs::path beside(const fs::path& path) {
  fs::path temporary = path;
  return temporary += ".tmp";
}

}  // namespace

void write_fully(FileSystem& files, int file, std::span<const std::byte> data,
                 std::string_view where, const fs::path& path) {
  write_pieces(data, where, path,
               [&](const std::byte* from, size_t bytes) { return files.write(file, from, bytes); });
}

OutputFile::OutputFile(FileSystem& files, fs::path path, Existing existing)
    : files_(files), path_(std::move(path)) {
  const int how = existing == Existing::Refuse ? O_EXCL : O_TRUNC;
  file_ = files_.open(path_.c_str(), O_WRONLY | O_CREAT | how, 0666);
  if (file_ < 0) throw FileError("OutputFile", "creating", path_, errno);
}

OutputFile::~OutputFile() {
  if (file_ >= 0) files_.close(file_);
}

void OutputFile::write(std::span<const std::byte> data) {
  write_fully(files_, file_, data, "OutputFile", path_);
  bytes_ += data.size();
  crc_ = crc32c(data, crc_);
}

void OutputFile::overwrite(std::uint64_t offset, std::span<const std::byte> data) {
  write_pieces(data, "OutputFile", path_, [&](const std::byte* from, size_t bytes) {
    const auto at = offset + static_cast<std::uint64_t>(from - data.data());
    return files_.write_at(file_, from, bytes, static_cast<off_t>(at));
  });
}

void OutputFile::finish() {
  if (files_.sync(file_) < 0) throw FileError("OutputFile", "syncing", path_, errno);
  if (files_.close(std::exchange(file_, -1)) < 0) {
    throw FileError("OutputFile", "closing", path_, errno);
  }
}

fs::path partial_name(const fs::path& path) {
  static std::atomic<int> number{0};
  fs::path name = path;
  return name += ".partial-" + std::to_string(::getpid()) + "-" + std::to_string(number++);
}

AtomicFile::AtomicFile(FileSystem& files, fs::path path) : files_(files), path_(std::move(path)) {
  while (!file_) {
    temporary_ = partial_name(path_);
    try {
      file_ = std::make_unique<OutputFile>(files_, temporary_, OutputFile::Existing::Refuse);
    } catch (const FileError& error) {  // a process of the same number may have left its file
      if (error.error_number() != EEXIST) throw;
    }
  }
}

AtomicFile::AtomicFile(FileSystem& files, fs::path path, fs::path temporary)
    : files_(files),
      path_(std::move(path)),
      temporary_(std::move(temporary)),
      file_(std::make_unique<OutputFile>(files_, temporary_)) {}

AtomicFile::~AtomicFile() {
  if (!file_) return;
  file_.reset();
  files_.remove(temporary_.c_str());
}

void AtomicFile::commit(Name name) {
  file_->finish();
  if (files_.rename(temporary_.c_str(), path_.c_str()) < 0) {
    throw FileError("AtomicFile", "renaming " + temporary_.string() + " to", path_, errno);
  }
  file_.reset();
  if (name == Name::Unsynced) return;
  sync_directory(files_, path_.has_parent_path() ? path_.parent_path() : fs::path("."));
}

void write_file_atomically(FileSystem& files, const fs::path& path, std::string_view contents) {
  AtomicFile file(files, path, beside(path));
  file.contents().write(contents);
  file.commit();
}

void copy_file_atomically(FileSystem& files, const fs::path& from, const fs::path& to) {
  AtomicFile file(files, to, beside(to));
  read_in_pieces(from, [&](std::span<const std::byte> piece) { file.contents().write(piece); });
  file.commit();
}

}  // namespace normball::trainer::files
