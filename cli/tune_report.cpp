#include "cli/tune_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "normball/base/text.h"
#include "trainer/sweep/pictures.h"
#include "trainer/sweep/results.h"

namespace normball::cli {
namespace {

using trainer::sweep::Metric;

// Of an accuracy the search has seen the negative.
double shown(const Metric& metric, double score) {
  return trainer::sweep::higher_is_better(metric.curve) ? -score : score;
}

std::string text_of(const Metric& metric, double score) {
  if (!std::isfinite(score)) return "diverged";
  return trainer::sweep::value_text(metric, shown(metric, score));
}

// Where there is more than one seed.
std::string mean_text(const TriedPoint& tried, const Metric& metric) {
  if (tried.scores.size() < 2) return "";
  double low = INFINITY, high = -INFINITY;
  for (const double score : tried.scores) {
    if (!std::isfinite(score)) return "diverged";
    low = std::min(low, shown(metric, score));
    high = std::max(high, shown(metric, score));
  }
  return text_of(metric, tried.mean()) + " (" + trainer::sweep::value_text(metric, low) + " to " +
         trainer::sweep::value_text(metric, high) + ")";
}

// Linear unless the values differ by more than a factor.
void choose_scale(plot::Figure& figure) {
  double low = INFINITY, high = -INFINITY;
  for (const auto& curve : figure.curves) {
    for (const double value : curve.values) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  figure.linear_y = !(low > 0 && high > 10 * low);
}

plot::Curve curve(std::string name, size_t number) {
  static constexpr std::pair<int, const char*> colors[] = {
      {31, "#c1272d"}, {34, "#1f5fa8"}, {32, "#2e7d32"}, {33, "#b26a00"}, {35, "#7b3fa0"}};
  const auto& [terminal, svg] = colors[number % std::size(colors)];
  return {.name = std::move(name),
          .values = {},
          .terminal_color = terminal,
          .svg_color = svg,
          .dash = static_cast<int>(2 * number),
          .points = true};
}

void add_point(plot::Curve& curve, double x, double y) {
  curve.x.push_back(x);
  curve.values.push_back(y);
}

plot::Figure figure_over(const std::string& key, const Metric& metric) {
  return {.title = metric.text() + " over " + key,
          .subtitle = "",
          .x_label = key,
          .y_label = metric.text(),
          .curves = {},
          .log_x = true};
}

std::string name_of(const std::optional<double>& rho) {
  return rho ? "rho " + number_text(*rho) : "";
}

}  // namespace

Table tuning_table(const TuningResult& result, const Metric& metric) {
  const bool has_rho = result.best.rho.has_value();
  std::vector<std::string> header = {"lr", metric.text(), "mean over all seeds", ""};
  if (has_rho) header.insert(header.begin(), "rho");
  Table table(header);
  auto tried = result.tried;
  std::ranges::stable_sort(tried, [](const TriedPoint& a, const TriedPoint& b) {
    return std::pair(a.point.rho, a.point.lr) < std::pair(b.point.rho, b.point.lr);
  });
  for (const auto& point : tried) {
    std::string note = point.point == result.best ? "best" : "";
    if (!point.note.empty()) note += (note.empty() ? "rho: " : "; rho: ") + point.note;
    std::vector<std::string> row = {number_text(point.point.lr),
                                    text_of(metric, point.scores.front()), mean_text(point, metric),
                                    note};
    if (has_rho) row.insert(row.begin(), number_text(*point.point.rho));
    table.add(row);
  }
  return table;
}

plot::Figure lr_figure(const TuningResult& result, const Metric& metric) {
  auto figure = figure_over("lr", metric);
  std::map<std::optional<double>, std::vector<const TriedPoint*>> lines;
  std::string missing;
  for (const auto& tried : result.tried) {
    if (std::isfinite(tried.scores.front())) {
      lines[tried.point.rho].push_back(&tried);
    } else {
      missing += (missing.empty() ? "diverged: " : "; ") + to_string(tried.point);
    }
  }
  figure.subtitle = missing;
  for (auto& [rho, points] : lines) {
    if (points.size() < 3) continue;
    std::ranges::sort(points, {}, [](const TriedPoint* tried) { return tried->point.lr; });
    auto line = curve(name_of(rho), figure.curves.size());
    for (const auto* tried : points) {
      add_point(line, tried->point.lr, shown(metric, tried->scores.front()));
    }
    figure.curves.push_back(std::move(line));
  }
  choose_scale(figure);
  return figure;
}

plot::Figure rho_figure(const TuningResult& result, const Metric& metric) {
  auto figure = figure_over("rho", metric);
  figure.subtitle = "with the lr that leaves the step at the median of s as long";
  std::vector<const TriedPoint*> inside, outside;
  for (const auto& tried : result.tried) {
    if (tried.stage != TuningStage::Rho || !std::isfinite(tried.scores.front())) continue;
    (tried.note.ends_with("every s") ? outside : inside).push_back(&tried);
  }
  if (inside.size() < 2) return figure;
  auto line = curve("between", 0);
  for (const auto* tried : inside)
    add_point(line, *tried->point.rho, shown(metric, tried->scores.front()));
  const double left = line.x.front(), right = line.x.back();
  figure.curves.push_back(std::move(line));
  for (const auto* tried : outside) {
    auto level = curve(tried->note, figure.curves.size());
    for (const double x : {left, right}) add_point(level, x, shown(metric, tried->scores.front()));
    figure.curves.push_back(std::move(level));
  }
  choose_scale(figure);
  return figure;
}

std::string settings_text(const TuningPoint& point) {
  const std::string lr = "--set optimizer.lr=" + number_text(point.lr);
  return point.rho ? lr + " --set optimizer.rho=" + number_text(*point.rho) : lr;
}

}  // namespace normball::cli
