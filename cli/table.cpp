#include "cli/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <sstream>

#include "trainer/runtime/terminal.h"

namespace normball::cli {
namespace {

using trainer::runtime::display_width;

constexpr int margin = 2, gap = 3, narrowest_words = 24;

std::string spaces(int count) { return std::string(static_cast<size_t>(std::max(count, 0)), ' '); }

}  // namespace

std::vector<std::string> wrap(const std::string& text, int columns) {
  std::istringstream words(text);
  std::vector<std::string> lines(1);
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (!line.empty() && display_width(line) + 1 + display_width(word) > columns) {
      lines.push_back(word);
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
  }
  return lines;
}

void Table::print(std::ostream& out, Align align) const {
  print_within(out, trainer::runtime::output_columns(), align);
}

void Table::print_within(std::ostream& out, int columns, Align align) const {
  std::vector<int> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  const int before_last = margin + std::accumulate(widths.begin(), widths.end() - 1, 0) +
                          gap * (static_cast<int>(widths.size()) - 1);
  const int room = columns - before_last;
  if (widths.back() > room) {
    if (align == Align::Right || room < narrowest_words) return print_records(out, columns);
    widths.back() = room;
  }
  for (size_t r = 0; r < rows_.size(); ++r) {
    print_row(out, rows_[r], widths, align);
    if (r > 0) continue;
    for (size_t i = 0; i < widths.size(); ++i) {
      out << spaces(i == 0 ? margin : gap);
      for (int k = 0; k < widths[i]; ++k) out << "─";
    }
    out << '\n';
  }
}

// The last column's words may need several lines.
void Table::print_row(std::ostream& out, const std::vector<std::string>& row,
                      const std::vector<int>& widths, Align align) const {
  int column = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const int before = column + (i == 0 ? margin : gap);
    const std::string padding = spaces(widths[i] - display_width(row[i]));
    out << spaces(before - column);
    if (i > 0 && align == Align::Right) {
      out << padding << row[i];
    } else if (i + 1 < row.size()) {
      out << row[i] << padding;
    } else {
      const auto lines = wrap(row[i], widths[i]);
      out << lines[0];
      for (size_t k = 1; k < lines.size(); ++k) out << '\n' << spaces(before) << lines[k];
    }
    column = before + widths[i];
  }
  out << '\n';
}

// For a terminal that is too narrow: each row as a list of what its columns say.
void Table::print_records(std::ostream& out, int columns) const {
  for (size_t r = 1; r < rows_.size(); ++r) {
    out << spaces(margin) << rows_[r][0] << '\n';
    for (size_t i = 1; i < rows_[r].size(); ++i) {
      if (rows_[r][i].empty()) continue;
      const int before = 2 * margin;
      for (const auto& line : wrap(rows_[0][i] + ": " + rows_[r][i], columns - before)) {
        out << spaces(before) << line << '\n';
      }
    }
  }
}

}  // namespace normball::cli
