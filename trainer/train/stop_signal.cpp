#include "trainer/train/stop_signal.h"

#include <csignal>

namespace normball::trainer {
namespace {

volatile std::sig_atomic_t stop_wanted = 0;

extern "C" void on_stop_signal(int signal) {
  stop_wanted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

StopSignal::StopSignal() {
  stop_wanted = 0;
  std::signal(SIGINT, on_stop_signal);
  std::signal(SIGTERM, on_stop_signal);
}

StopSignal::~StopSignal() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool StopSignal::requested() { return stop_wanted != 0; }

}  // namespace normball::trainer
