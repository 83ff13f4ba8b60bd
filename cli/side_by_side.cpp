#include "cli/side_by_side.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "cli/table.h"
#include "normball/base/error.h"
#include "trainer/runtime/progress.h"
#include "trainer/runtime/stop_signal.h"
#include "trainer/runtime/terminal.h"

namespace normball::cli {
namespace {

pid_t start(const Job& job) {
  std::vector<const char*> words;
  for (const auto& word : job.command) words.push_back(word.c_str());
  words.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw_invalid("run", "cannot start a process: ", std::strerror(errno));
  if (child > 0) return child;
  // Only what may follow a fork in a program with threads.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int log = ::open(job.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0 || ::dup2(log, STDOUT_FILENO) < 0 || ::dup2(log, STDERR_FILENO) < 0) ::_exit(126);
  ::execvp(words[0], const_cast<char* const*>(words.data()));  // NOLINT: exec changes nothing
  ::_exit(127);
}

std::int64_t size_of(const std::filesystem::path& log) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(log, ignored);
  return ignored ? 0 : static_cast<std::int64_t>(size);
}

// Of what came after `from`.
std::string last_lines(const std::filesystem::path& log, std::int64_t from, size_t count) {
  std::ifstream file(log);
  file.seekg(from);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::string text;
  for (size_t i = lines.size() > count ? lines.size() - count : 0; i < lines.size(); ++i) {
    text += "\n  " + lines[i];
  }
  return text;
}

std::string failure(const Job& job, std::int64_t log_before, int status) {
  const std::string how = WIFEXITED(status)
                              ? "ended with exit code " + std::to_string(WEXITSTATUS(status))
                              : "was ended by signal " + std::to_string(WTERMSIG(status));
  return job.name + " " + how + "; the end of " + job.log.string() + ":" +
         last_lines(job.log, log_before, 5);
}

// In bytes; 0 where the system does not say.
long long available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    long long kilobytes = 0;
    if (word == "MemAvailable:" && file >> kilobytes) return 1024 * kilobytes;
  }
  return 0;
}

}  // namespace

void run_side_by_side(const std::vector<Job>& jobs, int at_once, const JobEnded& ended,
                      const JobHopeless& hopeless) {
  const trainer::runtime::StopSignals signals;
  const trainer::runtime::StopWish wish;
  struct Running {
    size_t job;
    std::int64_t log_before;  // what earlier starts had printed, in bytes
  };
  std::map<pid_t, Running> running;
  std::set<pid_t> given_up;
  auto asked = std::chrono::steady_clock::now();
  bool stopping = false;
  const auto limit = static_cast<size_t>(std::max(1, at_once));
  long long largest = 0;  // in bytes
  size_t next = 0, reported = 0;
  bool more = true;
  const auto may_start = [&] {
    if (stopping || !more || next == jobs.size() || running.size() == limit) return false;
    return running.empty() || largest == 0 || available_memory() == 0 ||
           available_memory() > largest;
  };
  const auto end_hopeless = [&] {
    const auto now = std::chrono::steady_clock::now();
    if (!hopeless || stopping || now - asked < std::chrono::milliseconds(500)) return;
    asked = now;
    for (const auto& [child, run] : running) {
      if (given_up.contains(child) || !hopeless(run.job)) continue;
      given_up.insert(child);
      ::kill(child, SIGTERM);
    }
  };
  while (true) {
    end_hopeless();
    if (!stopping && trainer::runtime::StopWish::requested()) {
      stopping = true;
      for (const auto& [child, run] : running) ::kill(child, SIGTERM);
    }
    if (may_start()) {
      const std::int64_t log_before = size_of(jobs[next].log);
      running.emplace(start(jobs[next]), Running{next, log_before});
      ++next;
      continue;
    }
    if (running.empty()) break;
    int status = 0;
    rusage used{};
    const pid_t child = ::wait4(-1, &status, WNOHANG, &used);
    if (child <= 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    const auto found = running.find(child);
    if (found == running.end()) continue;
    const auto [job, log_before] = found->second;
    running.erase(found);
    const bool was_given_up = given_up.erase(child) > 0;
    largest = std::max(largest, 1024LL * used.ru_maxrss);
    if (stopping) continue;  // it has saved what it had; the next start goes on from there
    ++reported;
    const bool well = status == 0 || was_given_up;
    more = ended(job, well ? "" : failure(jobs[job], log_before, status)) && more;
  }
  if (stopping) {
    throw std::runtime_error(error_message("run", "stopped by a signal after ", reported, " of ",
                                           counted(static_cast<std::int64_t>(jobs.size()), "run"),
                                           "; the same command continues"));
  }
}

RunsProgress::RunsProgress(size_t runs)
    : runs_(runs), terminal_(trainer::runtime::can_redraw(STDERR_FILENO)), line_(std::cerr) {}

void RunsProgress::ended(bool well) {
  ++ended_;
  if (!well) ++bad_;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
  const double left =
      spent.count() / static_cast<double>(ended_) * static_cast<double>(runs_ - ended_);
  std::string text =
      std::to_string(ended_) + " of " + counted(static_cast<std::int64_t>(runs_), "run") + ", ";
  if (bad_ > 0) text.append(std::to_string(bad_)).append(" of them failed or diverged, ");
  text.append(trainer::runtime::duration_text(left)).append(" left");
  if (!terminal_) {
    std::cerr << text << '\n' << std::flush;
  } else {
    line_.draw(text);
    if (ended_ == runs_) line_.leave();
  }
}

}  // namespace normball::cli
