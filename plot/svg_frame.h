// What the figures have in common as SVG. Internal.
#pragma once

#include <ostream>
#include <string>

namespace normball::plot {

// The opening tag, a white ground, the title and the line below it.
void open_svg(std::ostream& out, double width, double height, double left, const std::string& title,
              const std::string& subtitle);

// The names of the axes of a field at (left, top).
void axis_labels(std::ostream& out, double left, double top, double width, double height,
                 const std::string& x_label, const std::string& y_label);

}  // namespace normball::plot
