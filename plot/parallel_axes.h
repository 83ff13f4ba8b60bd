// Several axes side by side, and a line through them for each point, as an SVG file.
#pragma once

#include <string>
#include <vector>

namespace normball::plot {

struct ParallelAxes {
  struct Axis {
    std::string name;
    std::vector<std::string> labels;  // from the bottom up
  };
  struct Line {
    std::vector<size_t> at;  // the label on each axis
    double share = 0;        // from 0, the worst, to 1: drawn the darker and the higher at the end
    std::string text = {};   // shown by a browser, and at the end of the best
    bool best = false;       // in red
  };

  std::string title;
  std::string subtitle;
  std::vector<Axis> axes;
  std::vector<Line> lines;  // later ones are drawn over earlier ones
};

std::string to_svg(const ParallelAxes& picture);

}  // namespace normball::plot
