// One process at a time trains in a run directory.
#pragma once

#include <filesystem>

namespace normball::trainer::run {

// Holds the directory's .lock as long as it lives; the system lets go of it when the process ends,
// however it ends. Throws std::runtime_error naming the process that has it.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& directory);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace normball::trainer::run
