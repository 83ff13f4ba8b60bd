// What a run shows while it trains: one line that is redrawn on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "trainer/runtime/terminal_line.h"

namespace normball::trainer::runtime {

struct Snapshot {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  double loss = 0;
  double lr = 0;
  std::optional<double> dual_norm = {};  // s
  std::optional<double> eta = {};
  std::optional<double> clipped_share = {};  // of the recent steps, 0 to 1
  double items_per_second = 0;
  std::string items = "images";           // or "tokens"
  std::optional<double> validation = {};  // the newest result
  std::string validation_name = "val loss";
  double seconds_left = 0;
};

// At most `columns` wide, for a terminal that knows UTF-8. What matters less is left out where
// there is little room; step and loss always stay.
std::string progress_line(const Snapshot& snapshot, int columns);
// For logs: all of the training step, in fixed order, in ASCII. A validation has its own line.
std::string plain_line(const Snapshot& snapshot);

// "1.2k", "35", "2.1M"
std::string short_count(double value);
// A loss for people: "2.3026", "0.0000"; one that is huge in few digits, "1.23e+30".
std::string loss_text(double loss);
// "42s", "3:05", "1:02:09", "2d 04h"; "--" for what is not known.
std::string duration_text(double seconds);

// Draws at most ten times a second. Anything else printed meanwhile goes through print(), which
// keeps the line at the bottom and the text from controlling the terminal.
class Progress {
 public:
  // `terminal`: redraw one line; otherwise a plain line for every update with `log` set.
  Progress(std::ostream& out, bool terminal) : out_(out), terminal_(terminal), line_(out) {}
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const Snapshot& snapshot, bool log);
  void evaluated(const Snapshot& snapshot);  // the validation is new
  void print(const std::string& text);
  void finish();  // leaves the last line standing

 private:
  void draw(const Snapshot& snapshot);

  std::ostream& out_;
  bool terminal_;
  TerminalLine line_;
  std::optional<Snapshot> pending_;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace normball::trainer::runtime
