#include "cli/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace normball::cli {
namespace {

// Characters, not bytes: the tables have signs like × in them.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

void Table::print(std::ostream& out, Align align) const {
  std::vector<size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t i = 0; i < rows_[r].size(); ++i) {
      const std::string padding(widths[i] - width_of(rows_[r][i]), ' ');
      const bool left = i == 0 || align == Align::Left;
      out << (i == 0 ? "  " : "   ") << (left ? rows_[r][i] + padding : padding + rows_[r][i]);
    }
    out << '\n';
    if (r > 0) continue;
    for (size_t i = 0; i < widths.size(); ++i) {
      out << (i == 0 ? "  " : "   ");
      for (size_t k = 0; k < widths[i]; ++k) out << "─";
    }
    out << '\n';
  }
}

std::string format(const char* pattern, double value) {
  char buffer[512];                                      // %f of the largest double has 309 digits
  if (std::isnan(value)) value = std::abs(value);        // not "-nan"
  std::snprintf(buffer, sizeof buffer, pattern, value);  // NOLINT: patterns are ours
  return buffer;
}

}  // namespace normball::cli
