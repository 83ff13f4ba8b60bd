// Curves over the steps k = 0, 1, ... on a logarithmic y axis: in a terminal and as an SVG file.
#pragma once

#include <string>
#include <vector>

namespace plot {

struct Curve {
  std::string name;
  std::vector<double> values;  // what is not positive and finite is left out
  int terminal_color = 39;     // an SGR foreground code
  std::string svg_color = "black";
  int dash = 0;  // length of dashes and gaps; 0 is a solid line
};

struct Figure {
  std::string title;
  std::string subtitle;
  std::string x_label;
  std::string y_label;
  std::vector<Curve> curves;
};

// In Braille dots, with a legend; without colours the dashes still tell the curves apart.
std::string to_terminal(const Figure& figure, int columns, int rows, bool color);

// Self-contained; each curve is labelled at its end.
std::string to_svg(const Figure& figure);

}  // namespace plot
