#include "trainer/sweep/over_axis.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "plot/band_chart.h"

namespace normball::trainer::sweep {
namespace {

using plot::BandChart;

bool all_numbers(const Axis& axis) {
  return std::ranges::all_of(axis.values,
                             [](const auto& value) { return value.number.has_value(); });
}

bool no_numbers(const Axis& axis) {
  return std::ranges::none_of(axis.values,
                              [](const auto& value) { return value.number.has_value(); });
}

BandChart::Point over(double x, const Estimate& estimate) {
  if (estimate.count < 2) return {x, estimate.value, estimate.value, estimate.value};
  return {x, estimate.value, estimate.low, estimate.high};
}

// What diverged is infinitely bad; the rest of what has no mean leaves a gap.
BandChart::Point without_mean(double x, const Point& point, bool higher) {
  const double infinity = higher ? -INFINITY : INFINITY;
  const double value = point.state() == "diverged" ? infinity : std::nan("");
  return {x, value, value, value};
}

BandChart chart_of(const Plan& plan, const Summary& summary, const Axis& axis) {
  return {.title = summary.metric.text() + " over " + axis.name,
          .subtitle =
              seeds_text(plan) + (plan.seeds.size() > 1 ? ", band: 95 % interval of the mean" : ""),
          .x_label = axis.name,
          .y_label = summary.metric.text(),
          .series = {},
          .x_logarithmic = axis.logarithmic,
          .dots = true};
}

// By x, on a y axis on which losses that are far apart can be told apart.
void arrange(BandChart& chart) {
  constexpr double far = 20;
  double low = INFINITY, high = 0;
  for (auto& series : chart.series) {
    std::ranges::sort(series.points, {}, &BandChart::Point::x);
    for (const auto& point : series.points) {
      if (!std::isfinite(point.middle)) continue;
      low = std::min(low, point.middle);
      high = std::max(high, point.middle);
    }
  }
  chart.logarithmic = low > 0 && high > far * low;
}

size_t drawn(const BandChart::Series& series) {
  return static_cast<size_t>(std::ranges::count_if(
      series.points, [](const auto& point) { return std::isfinite(point.middle); }));
}

// A value that is no number ("no clip") is a level line, and what has no metric is named.
std::vector<Picture> over_one(const Plan& plan, const Summary& summary) {
  const Axis& axis = plan.axes[0];
  const bool higher = higher_is_better(summary.metric.curve);
  BandChart chart = chart_of(plan, summary, axis);
  BandChart::Series series{.name = "", .points = {}};
  std::vector<std::pair<std::string, Estimate>> levels;
  std::string missing;
  for (const auto& point : summary.points) {
    const auto& value = axis.values[point.at[0]];
    const auto estimate = point.estimate();
    const bool whole = estimate && point.whole();
    if (!whole) {
      missing +=
          (missing.empty() ? "; not drawn: " : ", ") + value.label + " (" + point.state() + ")";
    }
    if (value.number) {
      series.points.push_back(whole ? over(*value.number, *estimate)
                                    : without_mean(*value.number, point, higher));
    } else if (whole) {
      levels.emplace_back(value.label, *estimate);
    }
  }
  if (drawn(series) < 2) return {};
  chart.subtitle += missing;
  chart.series = {std::move(series)};
  arrange(chart);
  const double left = chart.series[0].points.front().x, right = chart.series[0].points.back().x;
  for (const auto& [label, estimate] : levels) {
    chart.series.push_back({label, {over(left, estimate), over(right, estimate)}});
  }
  arrange(chart);
  return {{"over-" + file_name(axis.name) + ".svg", plot::to_svg(chart)}};
}

// The same curves, each with its best at 1.
BandChart relative(BandChart chart, const Axis& axis, bool higher) {
  std::erase_if(chart.series, [](const auto& series) { return drawn(series) == 0; });
  for (auto& series : chart.series) {
    const auto badness = [higher](const BandChart::Point& point) {
      return std::isfinite(point.middle) ? (higher ? -point.middle : point.middle) : INFINITY;
    };
    const double best = std::ranges::min_element(series.points, {}, badness)->x;
    for (auto& point : series.points) point.x /= best;
  }
  chart.title += ", relative to the best of each";
  chart.x_label = axis.name + " / the best of each";
  return chart;
}

std::vector<Picture> over_numbers(const Plan& plan, const Summary& summary, size_t numbers) {
  const Axis &axis = plan.axes[numbers], &names = plan.axes[1 - numbers];
  const bool higher = higher_is_better(summary.metric.curve);
  BandChart chart = chart_of(plan, summary, axis);
  for (const auto& value : names.values) {
    chart.series.push_back({.name = value.label, .points = {}});
  }
  std::int64_t diverged = 0, missing = 0;
  for (const auto& point : summary.points) {
    auto& series = chart.series[point.at[1 - numbers]];
    const double x = *axis.values[point.at[numbers]].number;
    const auto estimate = point.estimate();
    const bool whole = estimate && point.whole();
    series.points.push_back(whole ? over(x, *estimate) : without_mean(x, point, higher));
    if (!whole) ++(point.state() == "diverged" ? diverged : missing);
  }
  if (std::ranges::none_of(chart.series, [](const auto& series) { return drawn(series) > 1; })) {
    return {};
  }
  if (diverged > 0) {
    chart.subtitle += plan.seeds.size() > 1 ? "; ×: with a seed that diverged" : "; ×: diverged";
  }
  if (missing > 0) {
    chart.subtitle += "; " + std::to_string(missing) + " of " +
                      std::to_string(summary.points.size()) + " points have no result";
  }
  arrange(chart);
  const std::string file = "over-" + file_name(axis.name);
  std::vector<Picture> pictures = {{file + ".svg", plot::to_svg(chart)}};
  if (axis.logarithmic) {
    pictures.push_back(
        {file + "-of-best.svg", plot::to_svg(relative(std::move(chart), axis, higher))});
  }
  return pictures;
}

}  // namespace

std::vector<Picture> over_axis(const Plan& plan, const Summary& summary) {
  if (plan.axes.size() == 1) return over_one(plan, summary);
  if (plan.axes.size() != 2) return {};
  for (const size_t numbers : {0, 1}) {
    const Axis &axis = plan.axes[numbers], &names = plan.axes[1 - numbers];
    if (axis.values.size() > 1 && all_numbers(axis) && no_numbers(names)) {
      return over_numbers(plan, summary, numbers);
    }
  }
  return {};
}

}  // namespace normball::trainer::sweep
