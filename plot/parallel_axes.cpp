#include "plot/parallel_axes.h"

#include <sstream>

#include "page/page.h"
#include "plot/svg_frame.h"

namespace normball::plot {

std::string to_svg(const ParallelAxes& picture) {
  constexpr double left = 70, top = 96, distance = 150, height = 300, right = 110, bottom = 30;
  const double width = distance * static_cast<double>(picture.axes.size());
  const auto x_of = [&](size_t axis) { return left + distance * static_cast<double>(axis); };
  const auto y_of = [&](size_t axis, size_t label) {
    const auto count = static_cast<double>(picture.axes[axis].labels.size());
    return top + height * (1 - (static_cast<double>(label) + 0.5) / count);
  };

  std::ostringstream out;
  out.setf(std::ios::fixed);
  out.precision(2);
  open_svg(out, left + width + right, top + height + bottom, left, picture.title, picture.subtitle);
  for (const auto& line : picture.lines) {
    const double end = top + height * (1 - line.share);
    out << "<path fill=\"none\" stroke=\"" << (line.best ? "#d7191c" : "#225ea8")
        << "\" stroke-width=\"" << (line.best ? 3.0 : 1.4) << "\" stroke-opacity=\""
        << (line.best ? 1.0 : 0.08 + 0.6 * line.share * line.share) << "\" d=\"";
    for (size_t i = 0; i < line.at.size(); ++i) {
      out << (i == 0 ? 'M' : 'L') << x_of(i) << ' ' << y_of(i, line.at[i]);
    }
    out << 'L' << left + width << ' ' << end << "\"><title>" << page::escape(line.text)
        << "</title></path>\n";
    if (line.best) {
      out << "<text x=\"" << left + width + 9 << "\" y=\"" << end + 4.5
          << "\" font-weight=\"bold\" fill=\"#d7191c\">" << page::escape(line.text) << "</text>\n";
    }
  }
  for (size_t i = 0; i < picture.axes.size(); ++i) {
    out << "<path d=\"M" << x_of(i) << ' ' << top << 'v' << height
        << "\" stroke=\"#888\"/><text x=\"" << x_of(i) << "\" y=\"" << top - 14
        << "\" text-anchor=\"middle\" font-weight=\"bold\">" << page::escape(picture.axes[i].name)
        << "</text>\n";
    for (size_t k = 0; k < picture.axes[i].labels.size(); ++k) {
      out << "<text x=\"" << x_of(i) - 7 << "\" y=\"" << y_of(i, k) - 5
          << "\" text-anchor=\"end\" font-size=\"12\" fill=\"#555\">"
          << page::escape(picture.axes[i].labels[k]) << "</text>\n";
    }
  }
  out << "<path d=\"M" << left + width << ' ' << top << 'v' << height
      << "\" stroke=\"#888\"/><text x=\"" << left + width << "\" y=\"" << top - 14
      << "\" text-anchor=\"middle\" font-weight=\"bold\">rank</text>\n</svg>\n";
  return out.str();
}

}  // namespace normball::plot
