// What a terminal can do, and text that cannot control it.
#pragma once

#include <string>
#include <string_view>

namespace normball::trainer::runtime {

// The width of the terminal behind standard error; 80 where there is none.
int terminal_columns();
// The same of standard output; without limit where that is no terminal.
int output_columns();
// Whether the file is a terminal that can draw over its line; TERM=dumb cannot.
bool can_redraw(int file);
// Whether standard output is such a terminal and NO_COLOR is not set.
bool shows_colors();

// Columns a text takes, one for each code point.
int display_width(std::string_view text);
// Cut to at most so many columns, at a code point.
std::string cut_to_width(std::string text, int columns);

// What is not a printable character of UTF-8, a tab or a new line is escaped, as in \x1b.
std::string printable(std::string_view text);

// The same with new lines escaped as well, for names in messages.
std::string one_line(std::string_view text);

// printable() of a text that comes in pieces, which may end inside a character.
class PrintablePieces {
 public:
  std::string add(std::string_view piece);
  std::string finish();  // what is left of a last, incomplete character

 private:
  std::string pending_;
};

}  // namespace normball::trainer::runtime
