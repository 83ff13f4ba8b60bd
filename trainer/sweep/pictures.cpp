#include "trainer/sweep/pictures.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "normball/base/text.h"
#include "plot/band_chart.h"
#include "plot/heat_map.h"
#include "plot/parallel_axes.h"
#include "trainer/report/report.h"
#include "trainer/sweep/over_axis.h"

namespace normball::trainer::sweep {
namespace fs = std::filesystem;
namespace {

constexpr size_t most_maps = 12;
constexpr size_t most_curves = 8;

plot::HeatMap::Square square_of(const Plan& plan, const Summary& summary, size_t index) {
  const auto& point = summary.points[index];
  const auto estimate = point.estimate();
  plot::HeatMap::Square square{.text = point.state(), .hint = label_of(plan, point)};
  if (!point.stop.empty()) square.hint += ": " + point.stop;
  if (!estimate || !point.whole()) return square;
  square.value = estimate->value;
  square.text = value_text(summary.metric, estimate->value);
  square.best = summary.best == index;
  square.hint += ": " + square.text;
  if (estimate->count > 1) {
    square.hint += " (95 %: " + value_text(summary.metric, estimate->low) + " to " +
                   value_text(summary.metric, estimate->high) + ", " +
                   std::to_string(estimate->count) + " seeds)";
  }
  return square;
}

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> result;
  for (const auto& value : axis.values) result.push_back(value.label);
  return result;
}

// The first axis down, the second across; the points of the others follow each other.
std::vector<Picture> heat_maps(const Plan& plan, const Summary& summary) {
  const Axis &down = plan.axes[0], &across = plan.axes[1];
  size_t others = 1;
  for (size_t i = 2; i < plan.axes.size(); ++i) others *= plan.axes[i].values.size();
  std::vector<double> values;
  for (const auto& point : summary.points) {
    if (point.whole()) values.push_back(point.estimate()->value);
  }
  std::vector<Picture> pictures;
  for (size_t other = 0; other < std::min(others, most_maps); ++other) {
    plot::HeatMap map{.title = summary.metric.text(),
                      .subtitle = seeds_text(plan),
                      .x_label = across.name,
                      .y_label = down.name,
                      .columns = labels(across),
                      .rows = labels(down),
                      .squares = {},
                      .higher_is_better = higher_is_better(summary.metric.curve),
                      .others = values};
    for (size_t r = 0; r < down.values.size(); ++r) {
      auto& row = map.squares.emplace_back();
      for (size_t c = 0; c < across.values.size(); ++c) {
        row.push_back(square_of(plan, summary, (r * across.values.size() + c) * others + other));
      }
    }
    std::string name = "heat-map";
    const auto& at = summary.points[other].at;
    for (size_t i = 2; i < plan.axes.size(); ++i) {
      map.subtitle += ", " + plan.axes[i].name + " " + plan.axes[i].values[at[i]].label;
      name.append("-").append(std::to_string(at[i]));
    }
    pictures.push_back({name + ".svg", plot::to_svg(map)});
  }
  return pictures;
}

std::vector<size_t> ranking(const Summary& summary) {
  std::vector<size_t> order;
  for (size_t i = 0; i < summary.points.size(); ++i) {
    if (summary.points[i].whole()) order.push_back(i);
  }
  const double sign = higher_is_better(summary.metric.curve) ? -1 : 1;
  std::ranges::stable_sort(order, {},
                           [&](size_t i) { return sign * summary.points[i].estimate()->value; });
  return order;
}

// The curve of a point: mean, least and largest over its seeds at each step that all of them have.
std::vector<plot::BandChart::Point> curve_of(
    const Plan& plan, const Point& point, const Metric& metric,
    const std::map<std::pair<std::vector<size_t>, std::int64_t>, std::string>& names,
    const fs::path& cells) {
  std::map<double, std::vector<double>> at_step;
  for (const auto seed : plan.seeds) {
    const fs::path run = cells / names.at({point.at, seed});
    if (!fs::exists(run / "metrics.jsonl")) return {};
    const auto data = report::read_run(run, report::EarlierEnds::LeaveOut);
    const auto found = data.curves.find(metric.curve);
    if (found == data.curves.end()) return {};
    for (const auto& value : report::thin(found->second, 300))
      at_step[value.step].push_back(value.value);
  }
  std::vector<plot::BandChart::Point> points;
  for (const auto& [step, values] : at_step) {
    if (values.size() != plan.seeds.size()) continue;
    const auto [low, high] = std::ranges::minmax(values);
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    points.push_back({step, sum / static_cast<double>(values.size()), low, high});
  }
  return points;
}

std::vector<Picture> over_steps(const Plan& plan, const Summary& summary, const fs::path& cells) {
  std::map<std::pair<std::vector<size_t>, std::int64_t>, std::string> names;
  for (const auto& cell : cells_of(plan)) names[{cell.at, cell.seed}] = cell.name;
  plot::BandChart chart{
      .title = summary.metric.curve + " over the steps",
      .subtitle = "the best points; " + seeds_text(plan) +
                  (plan.seeds.size() > 1 ? ", band: from the lowest to the highest seed" : ""),
      .x_label = "step",
      .y_label = summary.metric.curve,
      .series = {}};
  double low = INFINITY, high = 0;
  for (const size_t index : ranking(summary)) {
    if (chart.series.size() == most_curves) break;
    const auto& point = summary.points[index];
    auto points = curve_of(plan, point, summary.metric, names, cells);
    for (const auto& place : points) {
      low = std::min(low, place.low);
      high = std::max(high, place.high);
    }
    if (points.size() > 1) {  // one evaluation is no curve
      chart.series.push_back({label_of(plan, point), std::move(points), summary.best == index});
    }
  }
  if (chart.series.empty()) return {};
  chart.logarithmic = low > 0 && high > 20 * low;
  return {{"curves.svg", plot::to_svg(chart)}};
}

std::vector<Picture> side_by_side(const Plan& plan, const Summary& summary) {
  plot::ParallelAxes picture{.title = "All axes",
                             .subtitle = "one line a point, the darker the better; the best in red",
                             .axes = {},
                             .lines = {}};
  for (const auto& axis : plan.axes) picture.axes.push_back({axis.name, labels(axis)});
  const auto order = ranking(summary);
  for (size_t rank = order.size(); rank-- > 0;) {
    const auto& point = summary.points[order[rank]];
    const double share = order.size() > 1
                             ? 1 - static_cast<double>(rank) / static_cast<double>(order.size() - 1)
                             : 1;
    picture.lines.push_back({.at = point.at,
                             .share = share,
                             .text = value_text(summary.metric, point.estimate()->value),
                             .best = summary.best == order[rank]});
  }
  if (picture.lines.empty()) return {};
  return {{"axes.svg", plot::to_svg(picture)}};
}

}  // namespace

std::string value_text(const Metric& metric, double value) {
  if (higher_is_better(metric.curve)) return printed("%.2f %%", 100 * value);
  const double size = std::abs(value);
  return printed(size != 0 && (size < 1e-3 || size >= 1e4) ? "%.2e" : "%.4g", value);
}

std::vector<Picture> pictures_of(const Plan& plan, const Summary& summary, const fs::path& cells) {
  std::vector<Picture> pictures;
  const auto add = [&](std::vector<Picture> more) {
    for (auto& picture : more) pictures.push_back(std::move(picture));
  };
  add(over_axis(plan, summary));
  if (plan.axes.size() >= 2) add(heat_maps(plan, summary));
  if (plan.axes.size() > 2) add(side_by_side(plan, summary));
  add(over_steps(plan, summary, cells));
  return pictures;
}

}  // namespace normball::trainer::sweep
