// One line at the bottom of a terminal that is drawn again and again, and a bar to put into it.
#pragma once

#include <ostream>
#include <string>

namespace normball::trainer::runtime {

class TerminalLine {
 public:
  explicit TerminalLine(std::ostream& out) : out_(out) {}

  // Cut to the terminal. Writes over the old line and clears only what sticks out: nothing
  // flickers.
  void draw(std::string line);
  // Above the line, and kept from controlling the terminal.
  void print(const std::string& text);
  void clear();  // as if nothing had been drawn
  void leave();  // the last line stays

 private:
  std::ostream& out_;
  std::string line_;
};

// It grows by eighths of a cell; the share is in 0 to 1, its ends take two cells more.
std::string progress_bar(double share, int cells);

}  // namespace normball::trainer::runtime
