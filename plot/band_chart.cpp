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
    const double decades = high_ - low_;
    std::vector<double> result;
    if (logarithmic_ && decades > 1.2) {  // whole decades, and more between few of them
      const auto between = decades <= 2     ? std::vector<double>{1, 2, 5}
                           : decades <= 3.5 ? std::vector<double>{1, 3}
                                            : std::vector<double>{1};
      const int step = std::max(1, static_cast<int>(decades / wanted));
      for (int decade = static_cast<int>(std::floor(low_)); decade <= high_; decade += step) {
        for (const double factor : between) {
          const double tick = factor * std::pow(10, decade);
          if (forward(tick) >= low_ && forward(tick) <= high_) result.push_back(tick);
        }
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

// Beyond every number: a cross on the border.
bool is_beyond(const BandChart& chart, const BandChart::Point& point) {
  return std::isinf(point.middle) && std::isfinite(point.x) &&
         (!chart.x_logarithmic || point.x > 0);
}

// What lies between gaps.
std::vector<std::vector<BandChart::Point>> pieces_of(const BandChart& chart,
                                                     const BandChart::Series& series) {
  std::vector<std::vector<BandChart::Point>> pieces(1);
  for (const auto& point : series.points) {
    if (drawable(chart, point)) {
      pieces.back().push_back(point);
    } else if (!pieces.back().empty()) {
      pieces.emplace_back();
    }
  }
  if (pieces.back().empty()) pieces.pop_back();
  return pieces;
}

struct Limits {
  double left = INFINITY, right = -INFINITY, low = INFINITY, high = -INFINITY;

  explicit Limits(const BandChart& chart) {
    for (const auto& series : chart.series) {
      for (const auto& point : series.points) {
        if (!drawable(chart, point) && !is_beyond(chart, point)) continue;
        left = std::min(left, point.x);
        right = std::max(right, point.x);
        for (const double y : {point.middle, point.low, point.high}) {
          if (!std::isfinite(y) || (chart.logarithmic && y <= 0)) continue;
          low = std::min(low, y);
          high = std::max(high, y);
        }
      }
    }
    if (left > right) left = 0, right = 1;
    if (low > high) low = 1, high = 10;
  }
};

const char* color_of(const BandChart::Series& series, size_t& used) {
  if (series.emphasized) return red;
  return used < colors.size() ? colors[used++] : grey;
}

class Drawing {
 public:
  explicit Drawing(const BandChart& chart)
      : chart_(chart),
        limits_(chart),
        x_axis_(limits_.left, limits_.right, chart.x_logarithmic),
        y_axis_(limits_.low, limits_.high, chart.logarithmic) {
    out_.setf(std::ios::fixed);
    out_.precision(1);
  }

  std::string svg() {
    size_t longest = 0;
    for (const auto& series : chart_.series) longest = std::max(longest, series.name.size());
    open_svg(out_, field_.left + field_.width + 40 + 7.6 * static_cast<double>(longest),
             field_.top + field_.height + 58, field_.left, chart_.title, chart_.subtitle);
    axes();
    std::vector<std::pair<const BandChart::Series*, const char*>> order;  // the emphasized on top
    size_t used = 0;
    for (const auto& series : chart_.series) order.emplace_back(&series, color_of(series, used));
    std::ranges::stable_sort(order, {}, [](const auto& entry) {
      return entry.first->emphasized ? 2 : entry.second == grey ? 0 : 1;
    });
    for (const auto& [series, color] : order) draw(*series, color);
    write_labels();
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  struct Label {
    double y;
    const char* color;
    const BandChart::Series* series;
  };

  double x_of(double x) const { return field_.left + x_axis_.share(x) * field_.width; }
  double y_of(double y) const { return field_.top + (1 - y_axis_.share(y)) * field_.height; }
  // An interval that reaches below zero ends at the field's border on a logarithmic axis.
  double edge(double y, double otherwise) const {
    const bool fits = std::isfinite(y) && (!chart_.logarithmic || y > 0);
    return std::clamp(y_of(fits ? y : otherwise), field_.top, field_.top + field_.height);
  }

  void axes() {
    for (const double tick : y_axis_.ticks(6)) {
      out_ << "<path d=\"M" << field_.left << ' ' << y_of(tick) << 'h' << field_.width
           << "\" stroke=\"#e4e4e4\"/><text x=\"" << field_.left - 10 << "\" y=\""
           << y_of(tick) + 4.5 << "\" text-anchor=\"end\">" << tick_text(tick) << "</text>\n";
    }
    for (const double tick : x_axis_.ticks(6)) {
      out_ << "<path d=\"M" << x_of(tick) << ' ' << field_.top + field_.height
           << "v5\" stroke=\"#888\"/><text x=\"" << x_of(tick) << "\" y=\""
           << field_.top + field_.height + 21 << "\" text-anchor=\"middle\">" << tick_text(tick)
           << "</text>\n";
    }
    out_ << "<path d=\"M" << field_.left << ' ' << field_.top << 'v' << field_.height << 'h'
         << field_.width << "\" fill=\"none\" stroke=\"#888\"/>\n";
    axis_labels(out_, field_.left, field_.top, field_.width, field_.height, chart_.x_label,
                chart_.y_label);
  }

  void draw(const BandChart::Series& series, const char* color) {
    const auto pieces = pieces_of(chart_, series);
    for (const auto& piece : pieces) {
      draw_band(piece, color);
      draw_line(piece, color, series.emphasized);
    }
    bool beyond = false;
    for (const auto& point : series.points) {
      if (!is_beyond(chart_, point)) continue;
      draw_cross(x_of(point.x), point.middle > 0, color);
      beyond = true;
    }
    if (color == grey || (pieces.empty() && !beyond)) return;
    labels_.push_back(
        {pieces.empty() ? field_.top : y_of(pieces.back().back().middle), color, &series});
  }

  void draw_band(const std::vector<BandChart::Point>& piece, const char* color) {
    if (piece.size() == 1) {
      const double x = x_of(piece[0].x), high = edge(piece[0].high, piece[0].middle);
      out_ << "<path stroke=\"" << color << "\" stroke-opacity=\"0.4\" stroke-width=\"3\" d=\"M"
           << x << ' ' << high << 'V' << edge(piece[0].low, limits_.low) << "\"/>\n";
      return;
    }
    out_ << "<path stroke=\"none\" fill=\"" << color << "\" fill-opacity=\"0.15\" d=\"";
    for (size_t i = 0; i < piece.size(); ++i) {
      out_ << (i == 0 ? 'M' : 'L') << x_of(piece[i].x) << ' '
           << edge(piece[i].high, piece[i].middle);
    }
    for (size_t i = piece.size(); i-- > 0;) {
      out_ << 'L' << x_of(piece[i].x) << ' ' << edge(piece[i].low, limits_.low);
    }
    out_ << "Z\"/>";
  }

  // A single point is a dot, which no line shows.
  void draw_line(const std::vector<BandChart::Point>& piece, const char* color, bool emphasized) {
    if (piece.size() > 1) {
      out_ << "<path fill=\"none\" stroke-linejoin=\"round\" stroke=\"" << color
           << "\" stroke-width=\"" << (emphasized ? 2.8 : 1.8) << "\" d=\"";
      for (size_t i = 0; i < piece.size(); ++i) {
        out_ << (i == 0 ? 'M' : 'L') << x_of(piece[i].x) << ' ' << y_of(piece[i].middle);
      }
      out_ << "\"/>\n";
    }
    if (piece.size() > 1 && !chart_.dots) return;
    for (const auto& point : piece) {
      out_ << "<circle r=\"" << (chart_.dots ? 3 : 4) << "\" fill=\"" << color << "\" cx=\""
           << x_of(point.x) << "\" cy=\"" << y_of(point.middle) << "\"/>\n";
    }
  }

  // Those at about the same x stand below each other.
  void draw_cross(double x, bool above, const char* color) {
    constexpr double size = 8, distance = 13;
    double y = above ? field_.top : field_.top + field_.height;
    for (const auto& [other_x, other_above] : crosses_) {
      if (other_above != above || std::abs(other_x - x) > size) continue;
      y += above ? distance : -distance;
    }
    crosses_.emplace_back(x, above);
    out_ << "<path class=\"beyond\" fill=\"none\" stroke-width=\"2.2\" stroke=\"" << color
         << "\" d=\"M" << x - size / 2 << ' ' << y - size / 2 << 'l' << size << ' ' << size << "m0 "
         << -size << 'l' << -size << ' ' << size << "\"/>\n";
  }

  // Beside the ends of their curves, moved apart, and up where the last would leave the picture.
  void write_labels() {
    constexpr double distance = 18;
    std::ranges::stable_sort(labels_, {}, &Label::y);
    double free_from = 0, lowest = field_.top + field_.height + 40;
    for (auto& label : labels_) {
      label.y = std::max(label.y + 4.5, free_from);
      free_from = label.y + distance;
    }
    for (size_t i = labels_.size(); i-- > 0; lowest -= distance) {
      labels_[i].y = std::min(labels_[i].y, lowest);
    }
    for (const auto& label : labels_) {
      out_ << "<text x=\"" << field_.left + field_.width + 9 << "\" y=\"" << label.y
           << "\" font-weight=\"bold\" fill=\"" << label.color << "\">"
           << page::escape(label.series->name) << "</text>\n";
    }
  }

  const BandChart& chart_;
  const Field field_;
  const Limits limits_;
  const Axis x_axis_, y_axis_;
  std::ostringstream out_;
  std::vector<Label> labels_;
  std::vector<std::pair<double, bool>> crosses_;
};

}  // namespace

std::string to_svg(const BandChart& chart) { return Drawing(chart).svg(); }

}  // namespace normball::plot
