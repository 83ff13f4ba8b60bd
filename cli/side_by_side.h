// Programs run side by side.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trainer/runtime/terminal_line.h"

namespace normball::cli {

struct Job {
  std::string name;                  // in messages
  std::vector<std::string> command;  // the first word is the program
  std::filesystem::path log;         // what it prints, after what earlier starts printed
};

// Called when a job has ended, with what went wrong: how it ended and the end of its log; empty
// where its exit code was 0. Returns whether further jobs are to be started.
using JobEnded = std::function<bool(size_t job, const std::string& failure)>;

// Asked of each running job from time to time: whether it is to end now, by SIGTERM. It then counts
// as ended, with whatever exit code it has; an end by that signal is no failure.
using JobHopeless = std::function<bool(size_t job)>;

// Runs the jobs, at most `at_once` at a time, and fewer where the memory available is less than the
// largest of those that ended has used. They end with this process (by SIGTERM). A stop signal
// (SIGINT, SIGTERM, SIGHUP) is passed on; when all have ended, which is not reported, it throws.
void run_side_by_side(const std::vector<Job>& jobs, int at_once, const JobEnded& ended,
                      const JobHopeless& hopeless = {});

// How many have ended and how long the others will take, on one line of a terminal.
class RunsProgress {
 public:
  explicit RunsProgress(size_t runs);

  void ended(bool well);

 private:
  size_t runs_, ended_ = 0, bad_ = 0;
  bool terminal_;
  trainer::runtime::TerminalLine line_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace normball::cli
