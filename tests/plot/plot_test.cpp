#include "plot/plot.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plot {
namespace {

Figure figure(std::vector<double> values) {
  return {.title = "", .subtitle = "", .x_label = "", .y_label = "", .curves = {{"a", values}}};
}

// Lines of the canvas that have dots.
int drawn_lines(const std::string& text) {
  int count = 0;
  for (size_t at = text.find("┤"), end; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (line.find("└") != std::string::npos) break;
    count +=
        line.find("\xe2\xa0") != std::string::npos || line.find("\xe2\xa1") != std::string::npos ||
        line.find("\xe2\xa2") != std::string::npos || line.find("\xe2\xa3") != std::string::npos;
  }
  return count;
}

TEST(Plot, DrawsASinglePointAndAConstant) {
  EXPECT_EQ(drawn_lines(to_terminal(figure({3}), 40, 10, false)), 1);
  EXPECT_EQ(drawn_lines(to_terminal(figure({3, 3, 3}), 40, 10, false)), 1);
  EXPECT_EQ(drawn_lines(to_terminal(figure({}), 40, 10, false)), 0);
}

TEST(Plot, APathBeginsWhereItsFirstPointIs) {
  for (const double missing : {double{NAN}, 0.0, -1.0, double{INFINITY}}) {
    const std::string svg = to_svg(figure({missing, 2, 3}));
    const auto path = svg.find("stroke-linejoin");
    EXPECT_EQ(svg.substr(svg.find(" d=\"", path), 5), " d=\"M") << missing;
  }
}

}  // namespace
}  // namespace plot
