#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "page/page.h"
#include "plot/axes.h"
#include "plot/svg_frame.h"

namespace normball::plot {
namespace {

// Beside the ends of the curves.
double room_for_labels(const Figure& figure) {
  size_t longest = 0;
  for (const auto& curve : figure.curves) {
    const auto characters = std::ranges::count_if(
        curve.name, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
    longest = std::max(longest, static_cast<size_t>(characters));
  }
  return std::max(182.0, 22 + 8.0 * static_cast<double>(longest));
}

}  // namespace

std::string to_svg(const Figure& figure) {
  constexpr double left = 78, width = 600, height = 340, bottom = 58;
  const double top = figure.title.empty() && figure.subtitle.empty() ? 16 : 70;
  const double right = room_for_labels(figure);
  const Axes axes(figure);
  const auto x_of = [&](double x) { return left + axes.across(x) * width; };
  const auto y_of = [&](double y) { return top + axes.down(y) * height; };

  std::ostringstream out;
  out.setf(std::ios::fixed);
  out.precision(1);
  open_svg(out, left + width + right, top + height + bottom, left, figure.title, figure.subtitle);
  for (const double tick : axes.y_ticks(8)) {
    const double y = y_of(tick);
    out << "<path d=\"M" << left << ' ' << y << 'h' << width << "\" stroke=\"#e4e4e4\"/>"
        << "<text x=\"" << left - 10 << "\" y=\"" << y + 4.5 << "\" text-anchor=\"end\">";
    if (axes.linear_y()) {
      out << tick_text(tick);
    } else {
      const auto decade = static_cast<int>(std::lround(std::log10(tick)));
      out << "10<tspan dy=\"-5\" font-size=\"10\">" << (decade < 0 ? "−" : "") << std::abs(decade)
          << "</tspan>";
    }
    out << "</text>\n";
  }
  for (const double x : axes.x_ticks(6)) {
    out << "<path d=\"M" << x_of(x) << ' ' << top + height << "v5\" stroke=\"#888\"/><text x=\""
        << x_of(x) << "\" y=\"" << top + height + 21 << "\" text-anchor=\"middle\">" << tick_text(x)
        << "</text>\n";
  }
  out << "<path d=\"M" << left << ' ' << top << 'v' << height << 'h' << width
      << "\" fill=\"none\" stroke=\"#888\"/>\n";
  axis_labels(out, left, top, width, height, figure.x_label, figure.y_label);

  struct Label {
    double x, y;
    const Curve* curve;
  };
  std::vector<Label> labels;
  for (const auto& curve : figure.curves) {
    out << "<path fill=\"none\" stroke-width=\"2.2\" stroke-linejoin=\"round\" stroke=\""
        << curve.svg_color << '"';
    if (curve.dash != 0) out << " stroke-dasharray=\"" << 2 * curve.dash << '"';
    out << " d=\"";
    Label label{left, top, &curve};
    bool pen_down = false;
    int drawn = 0;
    const size_t every = 1 + curve.values.size() / 1500;
    for (size_t k = 0; k < curve.values.size(); k += every) {
      if (!axes.drawable(curve, k)) continue;
      label = {x_of(Axes::x_of(curve, k)), y_of(curve.values[k]), &curve};
      out << (pen_down ? 'L' : 'M') << label.x << ' ' << label.y;
      pen_down = true;
      ++drawn;
    }
    out << "\"/>\n";
    const bool points = curve.points || drawn == 1;  // which no line shows
    for (size_t k = 0; points && k < curve.values.size(); ++k) {
      if (!axes.drawable(curve, k)) continue;
      out << "<circle r=\"3\" fill=\"" << curve.svg_color << "\" cx=\""
          << x_of(Axes::x_of(curve, k)) << "\" cy=\"" << y_of(curve.values[k]) << "\"/>\n";
    }
    labels.push_back(label);
  }

  // Labels of curves that end close to each other move apart.
  std::ranges::sort(labels, {}, &Label::y);
  double free_from = 0;
  for (const auto& label : labels) {
    const double y = std::max(label.y + 4.5, free_from);
    out << "<text x=\"" << label.x + 9 << "\" y=\"" << y << "\" font-weight=\"bold\" fill=\""
        << label.curve->svg_color << "\">" << page::escape(label.curve->name) << "</text>\n";
    free_from = y + 18;
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace normball::plot
