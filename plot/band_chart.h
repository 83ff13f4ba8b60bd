// Curves with a band around each, as an SVG file: means over seeds and how far the seeds spread.
#pragma once

#include <string>
#include <vector>

namespace normball::plot {

struct BandChart {
  struct Point {
    double x = 0, middle = 0, low = 0, high = 0;
  };
  struct Series {
    std::string name;
    // By x. One whose middle is not finite is a gap; an infinite one has a cross on the border of
    // the field that it lies beyond.
    std::vector<Point> points;
    bool emphasized = false;  // drawn last, in red and thicker
  };

  std::string title;
  std::string subtitle;
  std::string x_label, y_label;
  std::vector<Series> series;
  bool logarithmic = false;    // the y axis; what is not positive is left out then
  bool x_logarithmic = false;  // the x axis, likewise
  bool dots = false;           // at each point
};

// Self-contained. Of many series the first ten have colours and a name; the others are grey.
std::string to_svg(const BandChart& chart);

}  // namespace normball::plot
