#include "plot/plot.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plot/band_chart.h"

namespace normball::plot {
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

TEST(Plot, ALinearAxisShowsDifferencesThatALogarithmicOneHides) {
  Figure close = figure({2.01, 2.05, -0.5, 2.02});
  EXPECT_LE(drawn_lines(to_terminal(close, 40, 10, false)), 2);  // on a scale from 1 to 10
  close.linear_y = true;
  close.curves[0].values = {2.01, 2.05, 2.02};
  const std::string text = to_terminal(close, 40, 10, false);
  EXPECT_GE(drawn_lines(text), 6);
  EXPECT_NE(text.find("  2.05 ┤"), std::string::npos) << text;
  EXPECT_NE(text.find("  2.01 ┤"), std::string::npos) << text;
  EXPECT_NE(to_svg(close).find(">2.05</text>"), std::string::npos);
  close.curves[0].values = {-3, 0, 5};
  EXPECT_GE(drawn_lines(to_terminal(close, 40, 10, false)), 8);
  EXPECT_NE(to_svg(close).find(">-2</text>"), std::string::npos);
}

// A line of one point has no length.
TEST(Plot, ASinglePointIsMarkedInPictures) {
  EXPECT_NE(to_svg(figure({NAN, 3})).find("<circle"), std::string::npos);
  EXPECT_EQ(to_svg(figure({2, 3})).find("<circle"), std::string::npos);
  BandChart chart{.title = "", .subtitle = "", .x_label = "", .y_label = "", .series = {}};
  chart.series.push_back({"one", {{400, 2, 1.5, 2.5}}});
  const std::string one = to_svg(chart);
  EXPECT_NE(one.find("<circle"), std::string::npos);
  EXPECT_EQ(one.find("nan"), std::string::npos);
  chart.series[0].points.push_back({500, 2, 1.5, 2.5});
  EXPECT_EQ(to_svg(chart).find("<circle"), std::string::npos);
}

// Where the circles of an SVG stand.
std::vector<std::pair<double, double>> circles(const std::string& svg) {
  std::vector<std::pair<double, double>> found;
  for (size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) {
    found.emplace_back(std::stod(svg.substr(svg.find("cx=\"", at) + 4)),
                       std::stod(svg.substr(svg.find("cy=\"", at) + 4)));
  }
  return found;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Where the paths of this kind begin.
std::vector<std::pair<double, double>> beginnings(const std::string& svg, const std::string& kind) {
  std::vector<std::pair<double, double>> found;
  for (size_t at = svg.find(kind); at != std::string::npos; at = svg.find(kind, at + 1)) {
    const char* numbers = svg.c_str() + svg.find(" d=\"M", at) + 5;
    char* rest = nullptr;
    const double x = std::strtod(numbers, &rest);
    found.emplace_back(x, std::strtod(rest, nullptr));
  }
  return found;
}

TEST(Plot, BandsHaveGapsAndCrossesForWhatIsMissing) {
  const double none = std::nan(""), beyond = INFINITY;
  const auto at = [](double x, double y) { return BandChart::Point{x, y, y, y}; };
  BandChart chart{.title = "", .subtitle = "", .x_label = "", .y_label = "", .series = {}};
  chart.dots = chart.x_logarithmic = true;
  chart.series.push_back({"a", {at(0.1, 2), at(1, 1), at(10, none), at(100, 3), at(1000, 4)}});
  chart.series.push_back({"b", {at(0.1, 3), at(1, 2), at(10, beyond), at(100, -beyond)}});
  chart.series.push_back({"none is left", {at(10, beyond)}});
  const std::string svg = to_svg(chart);
  EXPECT_EQ(circles(svg).size(), 6u);
  EXPECT_EQ(count_of(svg, "stroke-linejoin"), 3u);  // the pieces
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_NE(svg.find("none is left"), std::string::npos);
  const auto crosses = beginnings(svg, "class=\"beyond\"");
  ASSERT_EQ(crosses.size(), 3u);
  EXPECT_LT(crosses[0].second, crosses[2].second);  // at one x, below each other
  EXPECT_EQ(crosses[0].first, crosses[2].first);
  EXPECT_LT(crosses[2].second, circles(svg)[3].second);  // and above all numbers
  EXPECT_GT(crosses[1].second, circles(svg)[1].second + 5);
}

// A logarithmic axis of few decades has numbers between them.
TEST(Plot, LogarithmicAxesHaveSeveralNumbers) {
  BandChart chart{.title = "", .subtitle = "", .x_label = "", .y_label = "", .series = {}};
  chart.x_logarithmic = true;
  for (const auto& [low, high, least] :
       {std::tuple{0.03, 30.0, 6u}, {2.0, 60.0, 4u}, {1e-8, 1e8, 4u}}) {
    chart.series = {{"a", {{low, 1, 1, 1}, {high, 2, 2, 2}}}};
    const size_t ticks = count_of(to_svg(chart), "v5\"");
    EXPECT_GE(ticks, least) << low;
    EXPECT_LE(ticks, 12u) << low;
  }
}

TEST(Plot, APowerLawIsStraightWhereBothAxesAreLogarithmic) {
  Curve curve{.name = "a", .values = {}, .points = true};
  for (const double x : {10.0, 30.0, 100.0, 1000.0}) {
    curve.x.push_back(x);
    curve.values.push_back(7 / std::sqrt(x));
  }
  Figure figure{
      .title = "", .subtitle = "", .x_label = "", .y_label = "", .curves = {curve}, .log_x = true};
  const auto points = circles(to_svg(figure));
  ASSERT_EQ(points.size(), 4u);
  const double slope = (points[3].second - points[0].second) / (points[3].first - points[0].first);
  EXPECT_GT(slope, 0);  // downwards
  for (const auto& [x, y] : points) {
    EXPECT_NEAR(y, points[0].second + slope * (x - points[0].first), 0.15);  // one decimal is kept
  }
  figure.log_x = false;
  const auto bent = circles(to_svg(figure));
  EXPECT_GT(std::abs(bent[1].second - bent[0].second - slope * (bent[1].first - bent[0].first)), 5);
  curve.x[0] = 0;  // has no place
  figure.curves = {curve};
  figure.log_x = true;
  EXPECT_EQ(circles(to_svg(figure)).size(), 3u);
}

TEST(Plot, LogarithmicTicksAreLabelled) {
  Curve curve{.name = "a<b", .values = {1, 1}, .x = {10, 1000}};
  const Figure figure{
      .title = "", .subtitle = "", .x_label = "n", .y_label = "", .curves = {curve}, .log_x = true};
  const std::string svg = to_svg(figure), text = to_terminal(figure, 60, 10, false);
  for (const char* number : {">10<", ">100<", ">1000<"}) {
    EXPECT_NE(svg.find(number), std::string::npos) << number;
  }
  EXPECT_NE(svg.find("a&lt;b"), std::string::npos);
  for (const char* number : {"10", "100", "1000"}) EXPECT_NE(text.find(number), std::string::npos);
}

}  // namespace
}  // namespace normball::plot
