// A table of values as coloured squares, as an SVG file: results over two axes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace normball::plot {

struct HeatMap {
  std::string title;
  std::string subtitle;
  std::string x_label, y_label;
  std::vector<std::string> columns, rows;  // the labels of the axes; the first row is at the top

  struct Square {
    std::optional<double> value = {};  // coloured by it; none: grey
    std::string text;                  // what is written in it
    std::string hint = {};             // shown by a browser
    bool best = false;                 // in red
  };
  std::vector<std::vector<Square>> squares;  // [row][column]
  bool higher_is_better = false;             // the better, the darker
  // Values of other maps beside this one, so that equal colours mean equal values in all of them.
  std::vector<double> others = {};
};

// Self-contained. Colours go by rank where the values are spread unevenly, so that one bad square
// does not make the others alike.
std::string to_svg(const HeatMap& map);

}  // namespace normball::plot
