#include "plot/heat_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "page/page.h"
#include "plot/svg_frame.h"

namespace normball::plot {
namespace {

// From pale yellow over green to dark blue, in steps that look alike to the eye and survive
// printing in grey (after ColorBrewer's YlGnBu, Harrower and Brewer 2003).
constexpr std::array<std::array<int, 3>, 5> ramp = {
    {{255, 255, 217}, {199, 233, 180}, {65, 182, 196}, {34, 94, 168}, {8, 29, 88}}};

std::string color_at(double share) {
  const double at = std::clamp(share, 0.0, 1.0) * (ramp.size() - 1);
  const auto below = std::min(static_cast<size_t>(at), ramp.size() - 2);
  const double part = at - static_cast<double>(below);
  std::array<int, 3> color{};
  for (size_t i = 0; i < 3; ++i) {
    color[i] = static_cast<int>(
        std::lround(ramp[below][i] + part * (ramp[below + 1][i] - ramp[below][i])));
  }
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", color[0], color[1], color[2]);
  return text;
}

// Where a value stands between the worst (0) and the best (1).
class Scale {
 public:
  explicit Scale(const HeatMap& map) : sorted_(map.others), higher_(map.higher_is_better) {
    for (const auto& row : map.squares) {
      for (const auto& square : row) {
        if (square.value && std::isfinite(*square.value)) sorted_.push_back(*square.value);
      }
    }
    std::ranges::sort(sorted_);
    if (sorted_.empty()) return;
    // The middle value far from the middle of the range: a few squares take up most of it.
    const double range = sorted_.back() - sorted_.front();
    const double middle = sorted_[sorted_.size() / 2] - sorted_.front();
    by_rank_ = range > 0 && (middle < 0.2 * range || middle > 0.8 * range);
  }

  double share(double value) const {
    double result = 1;
    if (by_rank_) {
      const auto at = std::ranges::lower_bound(sorted_, value) - sorted_.begin();
      result = static_cast<double>(at) / static_cast<double>(sorted_.size() - 1);
    } else if (sorted_.back() > sorted_.front()) {
      result = (value - sorted_.front()) / (sorted_.back() - sorted_.front());
    }
    return higher_ ? result : 1 - result;
  }

 private:
  std::vector<double> sorted_;
  bool higher_, by_rank_ = false;
};

}  // namespace

std::string to_svg(const HeatMap& map) {
  constexpr double cell_height = 40, top = 76, right = 24, bottom = 62;
  size_t longest = 0, widest = 0;
  for (const auto& row : map.rows) longest = std::max(longest, row.size());
  for (const auto& column : map.columns) widest = std::max(widest, column.size());
  const double cell_width = std::max(78.0, 14 + 7.2 * static_cast<double>(widest));
  const double left = 64 + 7.2 * static_cast<double>(longest);
  const double width = cell_width * static_cast<double>(map.columns.size());
  const double height = cell_height * static_cast<double>(map.rows.size());
  const double title_width = 9.8 * static_cast<double>(map.title.size());
  const Scale scale(map);

  std::ostringstream out;
  out.setf(std::ios::fixed);
  out.precision(1);
  open_svg(out, std::max(left + width, left + title_width) + right, top + height + bottom, left,
           map.title, map.subtitle);
  for (size_t r = 0; r < map.rows.size(); ++r) {
    const double y = top + cell_height * static_cast<double>(r);
    out << "<text x=\"" << left - 10 << "\" y=\"" << y + cell_height / 2 + 4.5
        << "\" text-anchor=\"end\">" << page::escape(map.rows[r]) << "</text>\n";
    for (size_t c = 0; c < map.columns.size(); ++c) {
      const auto& square = map.squares[r][c];
      const double x = left + cell_width * static_cast<double>(c);
      const bool known = square.value && std::isfinite(*square.value);
      const double share = known ? scale.share(*square.value) : 0;
      out << "<g><title>" << page::escape(square.hint) << "</title><rect x=\"" << x + 1 << "\" y=\""
          << y + 1 << "\" width=\"" << cell_width - 2 << "\" height=\"" << cell_height - 2
          << "\" rx=\"3\" fill=\"" << (known ? color_at(0.85 * share) : "#ececec") << '"'
          << (square.best ? " stroke=\"#d7191c\" stroke-width=\"3\"" : "") << "/><text x=\""
          << x + cell_width / 2 << "\" y=\"" << y + cell_height / 2 + 4.5
          << "\" text-anchor=\"middle\"" << (square.best ? " font-weight=\"bold\"" : "")
          << " fill=\""
          << (square.best && share < 0.5 ? "#d7191c"
              : known && share > 0.55    ? "white"
              : known                    ? "#222"
                                         : "#888")
          << "\">" << page::escape(square.text) << "</text></g>\n";
    }
  }
  for (size_t c = 0; c < map.columns.size(); ++c) {
    out << "<text x=\"" << left + cell_width * (static_cast<double>(c) + 0.5) << "\" y=\""
        << top + height + 20 << "\" text-anchor=\"middle\">" << page::escape(map.columns[c])
        << "</text>\n";
  }
  axis_labels(out, left, top, width, height, map.x_label, map.y_label);
  out << "</svg>\n";
  return out.str();
}

}  // namespace normball::plot
