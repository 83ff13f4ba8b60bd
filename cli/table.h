// Tables for people: columns as wide as they need to be, numbers to the right, words to the left.
// On a terminal that is too narrow, the words of the last column wrap, or rows become lists.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "trainer/runtime/counted.h"

namespace normball::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // Where the columns after the first go to.
  enum class Align { Left, Right };
  void print(std::ostream& out, Align align = Align::Right) const;
  // The same in at most this many columns, also where the output is no terminal.
  void print_within(std::ostream& out, int columns, Align align) const;

 private:
  void print_row(std::ostream& out, const std::vector<std::string>& row,
                 const std::vector<int>& widths, Align align) const;
  void print_records(std::ostream& out, int columns) const;

  std::vector<std::vector<std::string>> rows_;
};

// At least one line; a word that is too long stays whole.
std::vector<std::string> wrap(const std::string& text, int columns);

using trainer::runtime::counted;

}  // namespace normball::cli
