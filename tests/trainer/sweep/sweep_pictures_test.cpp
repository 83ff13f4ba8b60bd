#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "trainer/sweep/pictures.h"
#include "trainer/sweep/results.h"

namespace normball::trainer::sweep {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Three methods at lr factors 0.1, 1, 10, 100 with two seeds: the losses are parabolas over the
// logarithm with their lowest points at factors 1 and 10. All diverge at 100, and c everywhere.
std::map<std::string, std::string> pictures_with(const std::vector<std::string>& axes,
                                                 bool run_all = true) {
  Plan plan{
      .name = "flat", .base = "b", .settings = {"optimizer.lr=1"}, .axes = {}, .seeds = {1, 2}};
  plan.metric = "val_loss";
  for (const auto& text : axes) plan.axes.push_back(parse_axis(text));
  const std::map<std::string, double> best = {{"a", 0}, {"b", 1}, {"c", std::nan("")}};
  std::vector<Result> results;
  for (const auto& cell : cells_of(plan)) {
    Result result{.cell = cell.name, .place = {}, .seed = cell.seed, .settings = cell.settings};
    double loss = 1 + static_cast<double>(cell.seed) / 100;
    double at = 0;
    for (size_t i = 0; i < plan.axes.size(); ++i) {
      const auto& value = plan.axes[i].values[cell.at[i]];
      if (value.number) at = std::log10(*value.number);
    }
    for (size_t i = 0; i < plan.axes.size(); ++i) {
      const auto& value = plan.axes[i].values[cell.at[i]];
      if (value.number) continue;
      loss += std::pow(at - best.at(value.label), 2);
      if (at == 2) loss = std::nan("");  // the largest factor is too large for all
    }
    if (!run_all && at == 1) continue;
    if (std::isnan(loss)) {
      result.status = Status::Diverged;
    } else {
      result.curves["val_loss"] = {.last = loss, .tail = loss, .best = loss};
    }
    results.push_back(result);
  }
  std::map<std::string, std::string> pictures;
  const auto summary = summarize(plan, results);
  for (const auto& picture : pictures_of(plan, summary, "no-runs")) {
    pictures[picture.file] = picture.svg;
  }
  return pictures;
}

const std::string methods =
    "name = 'method', key = 'optimizer.method', values = [{ label = 'a', set = ['x.y=1'] }, "
    "{ label = 'b', set = ['x.y=2'] }, { label = 'c', set = ['x.y=3'] }]";
const std::string factors = "factor_of = 'optimizer.lr', log = [0.1, 100], points = 4";

TEST(SweepPictures, NamesAndNumbersAreOneCurveForEachName) {
  for (const auto& axes : {std::vector{methods, factors}, std::vector{factors, methods}}) {
    const auto pictures = pictures_with(axes);
    ASSERT_TRUE(pictures.contains("heat-map.svg"));
    const std::string& over = pictures.at("over-lr-factor.svg");
    EXPECT_EQ(count_of(over, "<circle"), 6u);  // of a and b
    EXPECT_EQ(count_of(over, "class=\"beyond\""), 2u + 4u);
    EXPECT_NE(over.find(">c</text>"), std::string::npos);
    EXPECT_NE(over.find("a seed that diverged"), std::string::npos);
    EXPECT_EQ(over.find("no result"), std::string::npos);
    EXPECT_NE(over.find("mean of 2 seeds, band: 95 %"), std::string::npos);
  }
}

// b's best is a decade to the right of a's: relative to it, both have a point at 1 on the axis,
// where the losses of both are least.
TEST(SweepPictures, RelativeToTheBestOfEach) {
  const std::string svg = pictures_with({methods, factors}).at("over-lr-factor-of-best.svg");
  EXPECT_NE(svg.find("lr factor / the best of each"), std::string::npos);
  EXPECT_EQ(svg.find(">c</text>"), std::string::npos);  // it has no best
  std::map<std::string, std::pair<double, double>> best;
  for (size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) {
    const auto text = [&](const char* key) {
      const size_t begin = svg.find(key, at) + std::string(key).size();
      return svg.substr(begin, svg.find('"', begin) - begin);
    };
    const double x = std::stod(text("cx=\"")), y = std::stod(text("cy=\""));
    auto& known = best.try_emplace(text("fill=\""), x, y).first->second;
    if (y > known.second) known = {x, y};
  }
  ASSERT_EQ(best.size(), 2u);
  EXPECT_NEAR(best.begin()->second.first, std::next(best.begin())->second.first, 0.11);
}

TEST(SweepPictures, WhatHasNotRunIsCounted) {
  const auto pictures = pictures_with({methods, factors}, false);
  EXPECT_NE(pictures.at("over-lr-factor.svg").find("3 of 12 points have no result"),
            std::string::npos);
}

TEST(SweepPictures, TwoAxesOfNumbersAreAHeatMap) {
  const auto pictures =
      pictures_with({"optimizer.rho=1,2,3", "key = 'optimizer.lr', log = [0.1, 1], points = 3"});
  EXPECT_TRUE(pictures.contains("heat-map.svg"));
  for (const auto& [file, svg] : pictures) EXPECT_FALSE(file.starts_with("over-")) << file;
}

}  // namespace
}  // namespace normball::trainer::sweep
