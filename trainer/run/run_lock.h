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

  // Where the directory is now: `known`, or the name that it was given since. What is written under
  // the old name would be torn from the run. Throws std::runtime_error where it was removed.
  std::filesystem::path place(const std::filesystem::path& known) const;

 private:
  int file_ = -1;
  int directory_ = -1;
};

}  // namespace normball::trainer::run
