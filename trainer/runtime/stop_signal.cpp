#include "trainer/runtime/stop_signal.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace normball::trainer::runtime {
namespace {

constexpr int wake = SIGURG;  // does nothing by itself

enum class Answer { AtOnce, AfterTheWork, Asked };
std::atomic<Answer> answer = Answer::AtOnce;
std::atomic<bool> ending = false;
static_assert(std::atomic<Answer>::is_always_lock_free);  // as a signal handler needs it

sigset_t set_of(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

[[noreturn]] void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  const sigset_t set = set_of(signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(signal);
  _exit(128 + signal);
}

// Also a handler: threads that a library started before main() do not block the signals.
extern "C" void receive(int signal) {
  Answer polite = Answer::AfterTheWork;
  if (!answer.compare_exchange_strong(polite, Answer::Asked)) end_by(signal);
}

// What the parent process had ignored. Libraries may put handlers of their own in its place while
// they are loaded (UCX, in Debian 13's LibTorch, for SIGHUP), hence this runs before their
// initializers, and asks the system itself: sanitizers, which stand before the library's function,
// are not ready yet.
sigset_t ignored_at_start;

void look_before_libraries() {
  struct {
    void (*handler)(int);
    unsigned long flags;  // NOLINT(google-runtime-int): the system's own type
    void (*restorer)();
    std::uint64_t mask;
  } action = {};
  sigemptyset(&ignored_at_start);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    const bool asked =
        ::syscall(SYS_rt_sigaction, signal, nullptr, &action, sizeof action.mask) == 0;
    if (asked && action.handler == SIG_IGN) sigaddset(&ignored_at_start, signal);
  }
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const at_start)() = look_before_libraries;

bool is_ignored(int signal) {
  if (sigismember(&ignored_at_start, signal) == 1) std::signal(signal, SIG_IGN);
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals() {
  watched_ = set_of(wake);
  struct sigaction action = {};
  action.sa_handler = receive;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (is_ignored(signal)) continue;
    sigaddset(&watched_, signal);
    sigaction(signal, &action, nullptr);
  }
  sigset_t blocked = watched_;
  if (!is_ignored(SIGPIPE)) sigaddset(&blocked, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &blocked, &mask_before_);
  ending = false;
  watcher_ = std::thread([this] { watch(); });
}

void StopSignals::watch() {
  int signal = 0;
  while (sigwait(&watched_, &signal) == 0 && !ending) {
    if (signal != wake) receive(signal);
  }
}

StopSignals::~StopSignals() {
  ending = true;
  pthread_kill(watcher_.native_handle(), wake);
  watcher_.join();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (sigismember(&watched_, signal) == 1) std::signal(signal, SIG_DFL);
  }
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

StopWish::StopWish() { answer = Answer::AfterTheWork; }
StopWish::~StopWish() { answer = Answer::AtOnce; }

bool StopWish::requested() {
  if (answer == Answer::Asked) return true;
  // Blocked, it stays pending for the thread whose write failed.
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
}

}  // namespace normball::trainer::runtime
