#include "plot/band_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "page/page.h"
#include "plot/svg_frame.h"

namespace normball::plot {
namespace {

// Okabe and Ito's colours, which the colour-blind can tell apart, without the red of the best.
constexpr std::array<const char*, 10> colors = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                                "#56b4e9", "#8c6d31", "#7570b3", "#999933",
                                                "#44aa99", "#555555"};
constexpr const char* red = "#d7191c";
constexpr const char* grey = "#c4c9cf";

struct Field {
  double left = 86, top = 70, width = 600, height = 340;
};

class Axis {
 public:
  Axis(double low, double high, bool logarithmic) : logarithmic_(logarithmic) {
    low_ = forward(low);
    high_ = forward(high);
    const double pad = high_ > low_ ? 0.03 * (high_ - low_) : std::max(1e-9, 0.05 * std::abs(low_));
    low_ -= pad;
    high_ += pad;
  }

  double share(double value) const { return (forward(value) - low_) / (high_ - low_); }

  // Round numbers, about `wanted` of them.
  std::vector<double> ticks(int wanted) const {
    const double raw = (high_ - low_) / wanted;
    std::vector<double> result;
    if (logarithmic_ && high_ - low_ > 1.2) {  // whole decades, and 3 between few of them
      for (int decade = static_cast<int>(std::ceil(low_)); decade <= high_;
           decade += std::max(1, static_cast<int>(raw))) {
        result.push_back(std::pow(10, decade));
      }
      return result;
    }
    const double low = back(low_), high = back(high_), step_raw = (high - low) / wanted;
    const double power = std::pow(10, std::floor(std::log10(step_raw)));
    double step = 10 * power;
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power >= step_raw) {
        step = factor * power;
        break;
      }
    }
    for (double k = std::ceil(low / step); k * step <= high; ++k) result.push_back(k * step);
    return result;
  }

 private:
  double forward(double value) const { return logarithmic_ ? std::log10(value) : value; }
  double back(double value) const { return logarithmic_ ? std::pow(10, value) : value; }

  bool logarithmic_;
  double low_, high_;
};

std::string tick_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", std::abs(value) < 1e-12 ? 0 : value);
  return text;
}

bool drawable(const BandChart& chart, const BandChart::Point& point) {
  const auto fits = [&](double y) { return std::isfinite(y) && (!chart.logarithmic || y > 0); };
  return std::isfinite(point.x) && (!chart.x_logarithmic || point.x > 0) && fits(point.middle);
}

struct Limits {
  double left = INFINITY, right = -INFINITY, low = INFINITY, high = -INFINITY;

  explicit Limits(const BandChart& chart) {
    for (const auto& series : chart.series) {
      for (const auto& point : series.points) {
        if (!drawable(chart, point)) continue;
        left = std::min(left, point.x);
        right = std::max(right, point.x);
        for (const double y : {point.middle, point.low, point.high}) {
          if (!std::isfinite(y) || (chart.logarithmic && y <= 0)) continue;
          low = std::min(low, y);
          high = std::max(high, y);
        }
      }
    }
    if (left > right) *this = Limits();
  }

 private:
  Limits() : left(0), right(1), low(1), high(10) {}
};

}  // namespace

std::string to_svg(const BandChart& chart) {
  const Field field;
  const Limits limits(chart);
  const Axis x_axis(limits.left, limits.right, chart.x_logarithmic),
      y_axis(limits.low, limits.high, chart.logarithmic);
  const auto x_of = [&](double x) { return field.left + x_axis.share(x) * field.width; };
  const auto y_of = [&](double y) { return field.top + (1 - y_axis.share(y)) * field.height; };
  // An interval that reaches below zero ends at the field's border on a logarithmic axis.
  const auto edge = [&](double y, double otherwise) {
    const bool fits = std::isfinite(y) && (!chart.logarithmic || y > 0);
    return std::clamp(y_of(fits ? y : otherwise), field.top, field.top + field.height);
  };

  std::ostringstream out;
  out.setf(std::ios::fixed);
  out.precision(1);
  size_t longest = 0;
  for (const auto& series : chart.series) longest = std::max(longest, series.name.size());
  open_svg(out, field.left + field.width + 40 + 7.6 * static_cast<double>(longest),
           field.top + field.height + 58, field.left, chart.title, chart.subtitle);
  for (const double tick : y_axis.ticks(6)) {
    out << "<path d=\"M" << field.left << ' ' << y_of(tick) << 'h' << field.width
        << "\" stroke=\"#e4e4e4\"/><text x=\"" << field.left - 10 << "\" y=\"" << y_of(tick) + 4.5
        << "\" text-anchor=\"end\">" << tick_text(tick) << "</text>\n";
  }
  for (const double tick : x_axis.ticks(6)) {
    out << "<path d=\"M" << x_of(tick) << ' ' << field.top + field.height
        << "v5\" stroke=\"#888\"/><text x=\"" << x_of(tick) << "\" y=\""
        << field.top + field.height + 21 << "\" text-anchor=\"middle\">" << tick_text(tick)
        << "</text>\n";
  }
  out << "<path d=\"M" << field.left << ' ' << field.top << 'v' << field.height << 'h'
      << field.width << "\" fill=\"none\" stroke=\"#888\"/>\n";
  axis_labels(out, field.left, field.top, field.width, field.height, chart.x_label, chart.y_label);

  struct Label {
    double y;
    const char* color;
    const BandChart::Series* series;
  };
  std::vector<Label> labels;
  std::vector<std::pair<const BandChart::Series*, const char*>> order;  // the emphasized one on top
  size_t used = 0;
  for (const auto& series : chart.series) {
    const char* color = series.emphasized ? red : used < colors.size() ? colors[used++] : grey;
    order.emplace_back(&series, color);
  }
  std::ranges::stable_sort(order, {}, [](const auto& entry) {
    return entry.first->emphasized ? 2 : entry.second == grey ? 0 : 1;
  });
  for (const auto& [series, color] : order) {
    std::vector<BandChart::Point> points;
    for (const auto& point : series->points) {
      if (drawable(chart, point)) points.push_back(point);
    }
    if (points.empty()) continue;
    out << "<path stroke=\"none\" fill=\"" << color << "\" fill-opacity=\"0.15\" d=\"";
    for (size_t i = 0; i < points.size(); ++i) {
      out << (i == 0 ? 'M' : 'L') << x_of(points[i].x) << ' '
          << edge(points[i].high, points[i].middle);
    }
    for (size_t i = points.size(); i-- > 0;) {
      out << 'L' << x_of(points[i].x) << ' ' << edge(points[i].low, limits.low);
    }
    out << "Z\"/><path fill=\"none\" stroke-linejoin=\"round\" stroke=\"" << color
        << "\" stroke-width=\"" << (series->emphasized ? 2.8 : 1.8) << "\" d=\"";
    for (size_t i = 0; i < points.size(); ++i) {
      out << (i == 0 ? 'M' : 'L') << x_of(points[i].x) << ' ' << y_of(points[i].middle);
    }
    out << "\"/>\n";
    if (points.size() == 1) {  // which no line shows
      const double x = x_of(points[0].x), high = edge(points[0].high, points[0].middle);
      out << "<path stroke=\"" << color << "\" stroke-opacity=\"0.4\" stroke-width=\"3\" d=\"M" << x
          << ' ' << high << 'V' << edge(points[0].low, limits.low) << "\"/><circle r=\"4\" fill=\""
          << color << "\" cx=\"" << x << "\" cy=\"" << y_of(points[0].middle) << "\"/>\n";
    }
    if (color != grey) labels.push_back({y_of(points.back().middle), color, series});
  }

  // Beside the ends of their curves, moved apart, and up where the last would leave the picture.
  constexpr double distance = 18;
  std::ranges::sort(labels, {}, &Label::y);
  double free_from = 0, lowest = field.top + field.height + 40;
  for (auto& label : labels) {
    label.y = std::max(label.y + 4.5, free_from);
    free_from = label.y + distance;
  }
  for (size_t i = labels.size(); i-- > 0; lowest -= distance) {
    labels[i].y = std::min(labels[i].y, lowest);
  }
  for (const auto& label : labels) {
    out << "<text x=\"" << field.left + field.width + 9 << "\" y=\"" << label.y
        << "\" font-weight=\"bold\" fill=\"" << label.color << "\">"
        << page::escape(label.series->name) << "</text>\n";
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace normball::plot
