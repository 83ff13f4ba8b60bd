// SIGINT and SIGTERM as a wish: the loop ends its step, saves and returns. A second signal ends the
// process at once.
#pragma once

namespace normball::trainer {

class StopSignal {
 public:
  StopSignal();   // takes both signals over
  ~StopSignal();  // and gives them back
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  static bool requested();
};

}  // namespace normball::trainer
