// Programs run side by side.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace normball::cli {

struct Job {
  std::string name;                  // in errors
  std::vector<std::string> command;  // the first word is the program
  std::filesystem::path log;         // what it prints
};

// Runs all jobs, at most `at_once` at a time; they end with this process. `done` is called after
// each with the number of those that have ended. Throws where one fails, with the end of its log,
// after those already running have ended.
void run_side_by_side(const std::vector<Job>& jobs, int at_once,
                      const std::function<void(size_t ended)>& done);

}  // namespace normball::cli
