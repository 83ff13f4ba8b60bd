// Tables for people: columns as wide as they need to be, numbers to the right, words to the left.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace normball::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // Where the columns after the first go to.
  enum class Align { Left, Right };
  void print(std::ostream& out, Align align = Align::Right) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// printf-style, for single numbers: format("%.2f ms", 1.5)
std::string format(const char* pattern, double value);

}  // namespace normball::cli
