// SIGINT, SIGTERM and SIGHUP as a wish: the work comes to a good end first. So does a closed pipe.
//
// No thread that computes may run a signal handler: the matrix products of oneDNN (2.6, 3.11) let
// the stack pointer point into the heap, and a handler's frame would overwrite what lies there. So
// the signals are blocked in the thread that makes StopSignals and in those it starts afterwards,
// and a thread of its own waits for them.
#pragma once

#include <csignal>
#include <thread>

namespace normball::trainer::runtime {

// Made before other threads. A signal ends the process at once, but for the first one during a
// StopWish. What the parent process had ignored (nohup) stays ignored.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // gives the signals back; a closed pipe then ends the process as usual
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  void watch();

  sigset_t watched_, mask_before_;
  std::thread watcher_;
};

// While it exists the first signal only asks.
class StopWish {
 public:
  StopWish();
  ~StopWish();
  StopWish(const StopWish&) = delete;
  StopWish& operator=(const StopWish&) = delete;

  // For the thread that prints: also whether nobody reads its output any more.
  static bool requested();
};

}  // namespace normball::trainer::runtime
