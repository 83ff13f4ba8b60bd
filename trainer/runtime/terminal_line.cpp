#include "trainer/runtime/terminal_line.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "trainer/runtime/terminal.h"

namespace normball::trainer::runtime {

void TerminalLine::draw(std::string line) {
  line = cut_to_width(std::move(line), terminal_columns() - 1);
  if (line == line_) return;
  out_ << '\r' << line << "\033[K" << std::flush;
  line_ = std::move(line);
}

void TerminalLine::print(const std::string& text) {
  if (!line_.empty()) out_ << "\r\033[K";
  out_ << printable(text) << '\n' << line_ << std::flush;
}

void TerminalLine::clear() {
  if (!line_.empty()) out_ << "\r\033[K" << std::flush;
  line_.clear();
}

void TerminalLine::leave() {
  if (!line_.empty()) out_ << std::endl;
  line_.clear();
}

std::string progress_bar(double share, int cells) {
  constexpr std::array<std::string_view, 8> part = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::clamp(share, 0.0, 1.0) * cells * 8);
  std::string text = "▕";
  for (int i = 0; i < cells; ++i) {
    const int fill = std::clamp(eighths - 8 * i, 0, 8);
    text += fill == 8 ? "█" : part[static_cast<size_t>(fill)];
  }
  return text + "▏";
}

}  // namespace normball::trainer::runtime
