#include "cli/local_ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "cli/environment.h"
#include "cli/meeting_place.h"
#include "normball/base/error.h"
#include "trainer/runtime/terminal.h"

namespace normball::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Variables = std::map<std::string, std::string>;

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(error_message("launch", what, ": ", std::strerror(errno)));
}

// Signals as something to read, as long as it lives. What the parent process had ignored stays so.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action = {};
      const bool ignored =
          ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
      if (!ignored) sigaddset(&set, signal);
    }
    ::sigprocmask(SIG_BLOCK, &set, &before_);
    file_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (file_ < 0) fail("signalfd");
  }
  ~Signals() {
    ::close(file_);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int file() const { return file_; }
  const sigset_t& before() const { return before_; }
  // The next one that came, or 0.
  int next() const {
    signalfd_siginfo info = {};
    return ::read(file_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  int file_ = -1;
  sigset_t before_;
};

Variables own_variables() {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t cut = text.find('=');
    if (cut != std::string::npos) variables[text.substr(0, cut)] = text.substr(cut + 1);
  }
  return variables;
}

// What this program chose for itself is chosen by each rank anew.
Variables variables_of(int rank, const LocalRanks& ranks, const MeetingPlace& place) {
  Variables variables = own_variables();
  std::istringstream adopted(adopted_environment());
  for (std::string name; adopted >> name;) variables.erase(name);
  for (const char* name : {"NORMBALL_ENVIRONMENT", "NORMBALL_STORE", "TORCHELASTIC_RESTART_COUNT",
                           "TORCHELASTIC_USE_AGENT_STORE"}) {
    variables.erase(name);
  }
  const std::string count = std::to_string(ranks.count), number = std::to_string(rank);
  variables["RANK"] = variables["LOCAL_RANK"] = number;
  variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = count;
  for (const auto& [name, value] : place.variables()) variables[name] = value;
  // c10d throws what it logs: a user reads it once, in our words.
  variables.try_emplace("GLOG_minloglevel", "3");
  variables.try_emplace("TORCH_CPP_LOG_LEVEL", "FATAL");  // where LibTorch was built without glog
  variables["NORMBALL_TIMEOUT"] = std::to_string(ranks.timeout.count());
  if (ranks.port > 0) {
    variables["MASTER_ADDR"] = "127.0.0.1";
    variables["MASTER_PORT"] = std::to_string(ranks.port);
  } else {
    variables["NORMBALL_STORE"] = place.store();
  }
  if (variables["OMP_NUM_THREADS"].empty()) {
    variables["OMP_NUM_THREADS"] = std::to_string(ranks.threads);
  }
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Child {
  int rank = 0;
  pid_t process = 0;
  int output = -1;        // of others than rank 0
  std::string line = {};  // that has no end yet
  std::vector<std::string> lines = {};
  bool running = true, killed = false;
  int code = 0;          // with which it ended
  std::string end = {};  // how, where that was no success: "failed with exit code 1"
};

// Between fork() and exec() only what is allowed there: other threads may have held locks.
[[noreturn]] void become_rank(char** arguments, char** variables, int output,
                              const sigset_t& signals, pid_t parent) {
  ::setpgid(0, 0);  // ^C at the terminal goes to the launcher alone, which passes it on once
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  if (output >= 0) {
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
  }
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  ::execve("/proc/self/exe", arguments, variables);
  ::_exit(127);
}

Child start(int rank, const LocalRanks& ranks, const MeetingPlace& place, const Signals& signals) {
  std::vector<std::string> words = {"normball"}, settings;
  words.insert(words.end(), ranks.command.begin(), ranks.command.end());
  for (const auto& [name, value] : variables_of(rank, ranks, place)) {
    settings.push_back(name + "=" + value);
  }
  const auto arguments = pointers_to(words), variables = pointers_to(settings);
  std::array<int, 2> pipe = {-1, -1};
  if (rank > 0 && ::pipe2(pipe.data(), O_CLOEXEC) != 0) fail("a pipe cannot be made");
  const pid_t parent = ::getpid(), process = ::fork();
  if (process < 0) fail("a rank cannot be started");
  if (process == 0) {
    become_rank(const_cast<char**>(arguments.data()), const_cast<char**>(variables.data()), pipe[1],
                signals.before(), parent);
  }
  if (pipe[1] >= 0) ::close(pipe[1]);
  return {.rank = rank, .process = process, .output = pipe[0]};
}

class Watch {
 public:
  Watch(const LocalRanks& ranks, const MeetingPlace& place) : ranks_(ranks), place_(place) {}
  ~Watch() {  // what could not be started leaves nothing behind
    send(SIGKILL);
    for (auto& child : children_) {
      if (child.running) ::waitpid(child.process, nullptr, 0);
      if (child.output >= 0) ::close(child.output);
    }
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  RanksEnd run() {
    for (int rank = 0; rank < ranks_.count; ++rank) {
      children_.push_back(start(rank, ranks_, place_, signals_));
    }
    while (any_running()) {
      wait_for_something();
      for (auto& child : children_) relay(child);
      for (int signal = signals_.next(); signal != 0; signal = signals_.next()) {
        if (signal == SIGCHLD) continue;
        end_.signal = signal;
        send(signal);
      }
      for (auto& child : children_) reap(child);
      if (deadline_ && Clock::now() > *deadline_) give_up();
    }
    name_failure();
    for (auto& child : children_) {
      if (child.code != 2) show_all(child);  // of a wrong command line rank 0 says the same
    }
    end_.checkpoint = place_.checkpoint();
    return end_;
  }

 private:
  bool any_running() const {
    for (const auto& child : children_) {
      if (child.running) return true;
    }
    return false;
  }

  void send(int signal) const {
    for (const auto& child : children_) {
      if (child.running) ::kill(child.process, signal);
    }
  }

  // What is left neither ended with the others nor told them why.
  void give_up() {
    for (const auto& child : children_) {
      if (!child.running || first_ != nullptr || !end_.failure.empty()) continue;
      end_.code = 1;
      end_.failure = "rank " + std::to_string(child.rank) + " did not end within " +
                     std::to_string(patience().count()) + " s of another one";
    }
    send(SIGKILL);
  }
  std::chrono::seconds patience() const { return ranks_.timeout + std::chrono::seconds(5); }

  void wait_for_something() const {
    std::vector<pollfd> files = {{signals_.file(), POLLIN, 0}};
    for (const auto& child : children_) {
      if (child.output >= 0) files.push_back({child.output, POLLIN, 0});
    }
    ::poll(files.data(), files.size(), deadline_ ? 100 : -1);
  }

  // All lines that are there by now.
  void relay(Child& child) {
    if (child.output < 0) return;
    pollfd file = {child.output, POLLIN, 0};
    std::array<char, 4096> bytes;
    while (::poll(&file, 1, 0) > 0) {
      const ssize_t got = ::read(child.output, bytes.data(), bytes.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        ::close(std::exchange(child.output, -1));
        if (!child.line.empty()) child.lines.push_back(std::exchange(child.line, {}));
        return;
      }
      for (const char c : std::string_view(bytes.data(), static_cast<size_t>(got))) {
        if (c != '\n') {
          child.line += c;
        } else {
          child.lines.push_back(std::exchange(child.line, {}));
        }
      }
    }
  }

  // The rank that reported its failure first, or else the first that ended with one.
  void name_failure() {
    if (first_ == nullptr || !end_.failure.empty()) return;
    const std::string report = place_.first_failure();
    for (const auto& child : children_) {
      if (report.starts_with(name_of(child) + ":") && child.code != 0) first_ = &child;
    }
    end_.code = first_->code;
    const bool all = place_.all_failed_alike(ranks_.count);
    end_.failure = (all ? "all ranks " : name_of(*first_) + " ") + first_->end;
  }
  static std::string name_of(const Child& child) { return "rank " + std::to_string(child.rank); }

  // Why rank 0 ended, in lines, which it has printed itself; none where it could not.
  std::vector<std::string> said_by_rank_0() const {
    if (children_[0].killed || children_[0].code == 0) return {};
    std::string reason = place_.failure_of(0);
    if (reason.empty()) {  // that of another one
      const std::string report = place_.first_failure();
      reason = report.substr(std::min(report.size(), report.find(": ") + 2));
    }
    std::istringstream text(reason);
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) {
      if (!line.empty()) lines.push_back(line);
    }
    return lines;
  }

  // What a rank printed. Mostly all say the same.
  void show_all(Child& child) {
    const auto known = said_by_rank_0();
    for (const auto& line : std::exchange(child.lines, {})) {
      const auto says_it = [&](const std::string& end) { return line.ends_with(end); };
      if (std::ranges::any_of(known, says_it) || !shown_.insert(line).second) continue;
      std::cerr << name_of(child) << ": " << trainer::runtime::printable(line) << '\n';
    }
  }

  void reap(Child& child) {
    int status = 0;
    if (!child.running || ::waitpid(child.process, &status, WNOHANG) != child.process) return;
    child.running = false;
    child.killed = WIFSIGNALED(status);
    child.code = child.killed ? 1 : WEXITSTATUS(status);
    relay(child);
    if (!deadline_) deadline_ = Clock::now() + patience();
    if (child.code == 0) return;
    child.end = child.killed ? "was ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
                                   ::strsignal(WTERMSIG(status)) + ")"
                             : "failed with exit code " + std::to_string(child.code);
    if (first_ != nullptr) return;
    first_ = &child;
    place_.report(name_of(child) + ": " + child.end);  // where it could not say it itself
  }

  const LocalRanks& ranks_;
  const MeetingPlace& place_;
  const Signals signals_;
  std::vector<Child> children_;
  const Child* first_ = nullptr;  // that ended with a failure
  std::set<std::string> shown_;
  RanksEnd end_;
  std::optional<Clock::time_point> deadline_;  // once one has ended
};

}  // namespace

RanksEnd run_local_ranks(const LocalRanks& ranks) {
  const MeetingPlace place;
  return Watch(ranks, place).run();
}

}  // namespace normball::cli
