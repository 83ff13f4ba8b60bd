#include "cli/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "normball/base/error.h"
#include "trainer/files/atomic_file.h"
#include "trainer/files/file_system.h"

namespace normball::cli {

using trainer::files::FileError;
using trainer::files::FileSystem;

namespace {

namespace fs = std::filesystem;

// The run in whose directory, or in one of whose checkpoints, the file is. Empty: none.
fs::path run_around(const fs::path& file) {
  std::error_code ignored;
  fs::path directory = file.parent_path();
  for (int level = 0; level < 3; ++level, directory = directory.parent_path()) {
    if (fs::exists(directory / "config.toml", ignored) &&
        (fs::exists(directory / "metrics.jsonl", ignored) ||
         fs::exists(directory / "checkpoints", ignored))) {
      return directory;
    }
  }
  return {};
}

void refuse_files_of_runs(const std::string& command, const std::string& path) {
  std::error_code ignored;
  const fs::path file = fs::weakly_canonical(fs::absolute(path), ignored);
  const fs::path run = run_around(file), kind = file.extension();
  const bool apart = kind == ".html" || kind == ".svg" || kind == ".json";  // which no run writes
  if (run.empty() || (apart && file.parent_path() == run)) return;
  throw CLI::ValidationError(error_message(
      command, path, " is a file of the run ", run.string(),
      ", which would be lost; name one elsewhere, or one beside its config.toml that ends in "
      ".html, .svg or .json"));
}

// Where a link to a file that is not there yet leads; else the path itself.
fs::path target_of(const fs::path& path) {
  std::error_code ignored;
  fs::path target = path;
  for (int links = 0; links < 40 && fs::is_symlink(target, ignored); ++links) {
    if (fs::exists(target, ignored)) return path;
    target = target.parent_path() / fs::read_symlink(target, ignored);
  }
  return target;
}

// The error number of why no file can be made in the directory; 0 where one can. None is left
// behind, whatever ends the process.
int why_no_new_file(const fs::path& parent) {
  const fs::path directory = parent.empty() ? fs::path(".") : parent;
  const int file = FileSystem::real().open(directory.c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (file >= 0) {
    FileSystem::real().close(file);
    return 0;
  }
  const bool unknown = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
  if (!unknown) return errno;
  return ::access(directory.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

}  // namespace

OutputFile::OutputFile(std::string_view command, std::string path)
    : command_(command), path_(std::move(path)) {
  if (path_.empty()) return;
  if (path_ == "-") {
    throw CLI::ValidationError(error_message(
        command_, "'-' is not a file: printed output goes to standard output; name a file"));
  }
  refuse_files_of_runs(command_, path_);
  target_ = target_of(path_);
  std::error_code error;
  new_ = fs::symlink_status(target_, error).type() == fs::file_type::not_found;
  if (new_) {
    if (const int problem = why_no_new_file(target_.parent_path()); problem != 0) {
      throw FileError(command_, "opening for writing", path_, problem);
    }
    return;
  }
  file_ = FileSystem::real().open(target_.c_str(), O_WRONLY, 0);
  if (file_ < 0) throw FileError(command_, "opening for writing", path_, errno);
}

OutputFile::~OutputFile() {
  if (file_ >= 0) FileSystem::real().close(file_);
}

void OutputFile::write(std::string_view text) {
  if (path_.empty()) return;
  auto& files = FileSystem::real();
  if (new_) {
    trainer::files::write_file_atomically(files, target_, text);
    return;
  }
  struct stat status = {};
  const bool regular = ::fstat(file_, &status) == 0 && S_ISREG(status.st_mode);
  if (regular && files.truncate(file_, 0) < 0) {
    throw FileError(command_, "emptying", path_, errno);
  }
  trainer::files::write_fully(files, file_, std::as_bytes(std::span(text)), command_, path_);
  if (files.close(std::exchange(file_, -1)) < 0) {
    throw FileError(command_, "closing", path_, errno);
  }
}

void require_two_files(std::string_view command, const std::string& first,
                       const std::string& second) {
  if (first.empty() || second.empty()) return;
  std::error_code ignored;
  const bool there = fs::exists(first, ignored);
  const bool same = there ? fs::equivalent(first, second, ignored)
                          : fs::weakly_canonical(fs::absolute(first), ignored) ==
                                fs::weakly_canonical(fs::absolute(second), ignored);
  if (!same || (there && !fs::is_regular_file(first, ignored))) return;
  throw CLI::ValidationError(error_message(command, first, " and ", second,
                                           " are the same file; name two different ones"));
}

}  // namespace normball::cli
