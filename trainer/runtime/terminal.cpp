#include "trainer/runtime/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

namespace normball::trainer::runtime {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

std::optional<int> columns_of(int file) {
  winsize size{};
  if (::ioctl(file, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return size.ws_col;
}

size_t length_by_first_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
}

// Where a character begins whose last bytes may still come.
size_t begin_of_incomplete(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const char c = text[text.size() - back];
    if (!continues_character(c)) {
      return length_by_first_byte(c) > back ? text.size() - back : text.size();
    }
  }
  return text.size();
}

}  // namespace

int terminal_columns() { return columns_of(STDERR_FILENO).value_or(80); }

int output_columns() {
  return columns_of(STDOUT_FILENO).value_or(std::numeric_limits<int>::max() / 2);
}

bool can_redraw(int file) {
  const char* term = std::getenv("TERM");
  return ::isatty(file) != 0 && term != nullptr && *term != '\0' &&
         std::string_view(term) != "dumb";
}

bool shows_colors() {
  const char* refused = std::getenv("NO_COLOR");
  return can_redraw(STDOUT_FILENO) && (refused == nullptr || *refused == '\0');
}

int display_width(std::string_view text) {
  return static_cast<int>(
      std::ranges::count_if(text, [](char c) { return !continues_character(c); }));
}

std::string cut_to_width(std::string text, int columns) {
  while (display_width(text) > std::max(columns, 0)) {
    while (continues_character(text.back())) text.pop_back();
    text.pop_back();
  }
  return text;
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    utf8proc_int32_t c = 0;
    const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &c);
    const auto length = static_cast<size_t>(std::max<utf8proc_ssize_t>(size, 1));
    const auto category = size > 0 ? utf8proc_category(c) : UTF8PROC_CATEGORY_CN;
    const bool control = category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
                         category == UTF8PROC_CATEGORY_CN;
    if (!control || c == '\n' || c == '\t') {
      out += text.substr(0, length);
    } else {
      for (const char byte : text.substr(0, length)) {
        constexpr std::string_view digits = "0123456789abcdef";
        const auto value = static_cast<unsigned char>(byte);
        out += {'\\', 'x', digits[value >> 4], digits[value & 15]};
      }
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string one_line(std::string_view text) {
  std::string line = printable(text);
  for (size_t at = 0; (at = line.find('\n', at)) != std::string::npos; at += 2) {
    line.replace(at, 1, "\\n");
  }
  return line;
}

std::string PrintablePieces::add(std::string_view piece) {
  pending_ += piece;
  const size_t complete = begin_of_incomplete(pending_);
  std::string out = printable(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return out;
}

std::string PrintablePieces::finish() { return printable(std::exchange(pending_, {})); }

}  // namespace normball::trainer::runtime
