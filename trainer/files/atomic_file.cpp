#include "trainer/files/atomic_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include "trainer/files/checksum.h"

namespace normball::trainer::files {
namespace fs = std::filesystem;

void write_fully(FileSystem& files, int file, std::span<const std::byte> data,
                 std::string_view where, const fs::path& path) {
  while (!data.empty()) {
    // Linux takes at most 2 GiB at a time.
    const ssize_t put = files.write(file, data.data(), std::min<size_t>(data.size(), 1u << 30));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw FileError(where, "writing", path, errno);
    data = data.subspan(static_cast<size_t>(put));
  }
}

OutputFile::OutputFile(FileSystem& files, fs::path path) : files_(files), path_(std::move(path)) {
  file_ = files_.open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
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

void OutputFile::finish() {
  if (files_.sync(file_) < 0) throw FileError("OutputFile", "syncing", path_, errno);
  if (files_.close(std::exchange(file_, -1)) < 0) {
    throw FileError("OutputFile", "closing", path_, errno);
  }
}

namespace {

// Beside its place, then under its name.
void replace(FileSystem& files, const fs::path& path,
             const std::function<void(OutputFile&)>& write) {
  fs::path temporary = path;
  temporary += ".tmp";
  {
    OutputFile file(files, temporary);
    write(file);
    file.finish();
  }
  if (files.rename(temporary.c_str(), path.c_str()) < 0) {
    throw FileError("write_file_atomically", "renaming " + temporary.string() + " to", path, errno);
  }
  sync_directory(files, path.has_parent_path() ? path.parent_path() : fs::path("."));
}

}  // namespace

void write_file_atomically(FileSystem& files, const fs::path& path, std::string_view contents) {
  replace(files, path, [&](OutputFile& file) { file.write(contents); });
}

void copy_file_atomically(FileSystem& files, const fs::path& from, const fs::path& to) {
  replace(files, to, [&](OutputFile& file) {
    read_in_pieces(from, [&](std::span<const std::byte> piece) { file.write(piece); });
  });
}

}  // namespace normball::trainer::files
