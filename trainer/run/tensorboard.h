// TensorBoard event files: TFRecords (length, masked CRC-32C of it, data, masked CRC-32C of it)
// that hold Event messages, written by hand since no Debian package writes them from C++.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/files/file_system.h"

namespace normball::trainer::run {

// The names of a directory's event files, in the order in which they are read.
std::vector<std::filesystem::path> event_files(const std::filesystem::path& directory);

class EventWriter {
 public:
  // A new file events.out.tfevents.<time>.<host>.<pid> in the directory, after all that are there
  // in the order of names, in which readers take them. A resumed run starts another one whose first
  // event tells readers to drop what older files have from `first_step` on.
  EventWriter(const std::filesystem::path& directory, std::optional<std::int64_t> first_step = {},
              files::FileSystem& files = files::FileSystem::real());
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  using Scalar = std::pair<std::string_view, double>;
  void scalars(std::int64_t step, std::span<const Scalar> values);
  void text(std::int64_t step, std::string_view tag, std::string_view text);  // Markdown

  const std::filesystem::path& path() const { return path_; }

 private:
  void write(const std::string& event);

  std::filesystem::path path_;
  files::FileSystem& files_;
  int file_ = -1;
};

}  // namespace normball::trainer::run
