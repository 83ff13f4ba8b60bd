// Curves over the steps k = 0, 1, ... or over numbers of their own, on a y axis that is logarithmic
// unless it is asked to be linear: in a terminal and as an SVG file.
#pragma once

#include <string>
#include <vector>

namespace normball::plot {

struct Curve {
  std::string name;
  std::vector<double>
      values;  // what is not finite, or not positive on a logarithmic axis, is left out
  int terminal_color = 39;  // an SGR foreground code
  std::string svg_color = "black";
  int dash = 0;                // length of dashes and gaps; 0 is a solid line
  std::vector<double> x = {};  // where each value stands; empty: at 0, 1, 2, ...
  bool points = false;         // a dot at each value, in SVG
};

struct Figure {
  std::string title;
  std::string subtitle;
  std::string x_label;
  std::string y_label;
  std::vector<Curve> curves;
  bool log_x = false;  // logarithmic; what is not positive is left out
  bool linear_y = false;
};

// In Braille dots, with a legend; without colours the dashes still tell the curves apart.
std::string to_terminal(const Figure& figure, int columns, int rows, bool color);

// Self-contained; each curve is labelled at its end.
std::string to_svg(const Figure& figure);

}  // namespace normball::plot
