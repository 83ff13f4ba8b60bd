#include "trainer/sweep/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "trainer/report/report.h"
#include "trainer/runtime/counted.h"

namespace normball::trainer::sweep {
namespace {

using runtime::counted;

constexpr std::array<std::string_view, 3> kinds = {"last", "tail", "best"};

bool better(double a, double b, bool higher) { return higher ? a > b : a < b; }

std::vector<double> finished(const Point& point) {
  std::vector<double> values;
  for (const auto& value : point.values) {
    if (value) values.push_back(*value);
  }
  return values;
}

// How many of the other points the seeds do not tell apart from the best.
std::string overlap(const Plan& plan, const Summary& summary) {
  const auto& best = summary.points[*summary.best];
  if (plan.seeds.size() < 2) {
    return "one seed: nothing is known of the spread; differences may be chance";
  }
  const auto best_values = finished(best);
  size_t alike = 0;
  std::string nearest;
  for (size_t i = 0; i < summary.points.size(); ++i) {
    const auto& point = summary.points[i];
    if (i == *summary.best || !point.whole()) continue;
    const auto difference = paired_difference(finished(point), best_values);
    if (difference.low > 0 || difference.high < 0) continue;
    ++alike;
    if (alike <= 3) nearest += (alike == 1 ? "" : "; ") + label_of(plan, point);
  }
  if (alike == 0) return "";
  return "not told apart from the best by these seeds (95 % interval of the paired difference): " +
         counted(static_cast<std::int64_t>(alike), "point") + " (" + nearest +
         (alike > 3 ? "; ..." : "") + ")";
}

std::string budget(std::span<const Result> results) {
  double seconds = 0;
  std::int64_t least = INT64_MAX, most = 0, taken = 0, stopped = 0;
  for (const auto& result : results) {
    seconds += result.seconds;
    taken += result.steps;
    if (result.status == Status::Stopped) ++stopped;
    if (result.status != Status::Finished) continue;
    least = std::min(least, result.steps);
    most = std::max(most, result.steps);
  }
  std::string text = "budget: " + counted(std::ssize(results), "run");
  if (most > 0) {
    text += " of " + (least == most ? "" : std::to_string(least) + " to ") + counted(most, "step");
  }
  if (stopped > 0) {
    text += ", " + std::to_string(stopped) + " of them stopped early: " + counted(taken, "step") +
            " instead of " + std::to_string(most * std::ssize(results));
  }
  const bool long_ones = seconds >= 3600;
  return text + printed(long_ones ? ", %.1f hours of training in all"
                                  : ", %.1f minutes of training in all",
                        seconds / (long_ones ? 3600 : 60));
}

void add_counts(const Summary& summary, std::vector<std::string>& remarks) {
  int diverged = 0, failed = 0;
  for (const auto& point : summary.points) {
    diverged += point.diverged;
    failed += point.failed;
  }
  const auto add = [&](int count, const char* what) {
    if (count > 0) remarks.push_back(counted(count, "cell") + " " + what);
  };
  add(diverged, "diverged");
  add(failed, "failed: `reason` in results.csv says why, and the log beside its directory");
  const auto stopped =
      std::ranges::count_if(summary.points, [](const Point& point) { return point.stopped > 0; });
  if (stopped > 0) {
    remarks.push_back(counted(stopped, "point") + (stopped == 1 ? " was" : " were") +
                      " stopped early by " + summary.metric.text() + ": what " +
                      (stopped == 1 ? "it" : "they") +
                      " would have come to is not known, and nothing is decided by it");
  }
  if (summary.complete()) return;
  remarks.push_back(std::to_string(summary.there) + " of " +
                    counted(static_cast<std::int64_t>(summary.planned), "run") +
                    (summary.there == 1 ? " is" : " are") + " there" +
                    (summary.best ? ": the best is the best so far" : ""));
}

// Whether all places on the axis have been tried with the other settings of the point. What is
// missing may still be better.
bool tried_along(const Summary& summary, const Point& from, size_t axis) {
  return std::ranges::none_of(summary.points, [&](const Point& point) {
    auto at = point.at;
    at[axis] = from.at[axis];
    return at == from.at && point.missing > 0;
  });
}

Metric parse_metric(std::string_view text) {
  Metric metric;
  const auto blank = text.find(' ');
  metric.curve = text.substr(0, blank);
  if (blank == std::string_view::npos) return metric;
  metric.of = text.substr(blank + 1);
  if (std::ranges::find(kinds, metric.of) == kinds.end()) {
    throw_invalid("sweep", "metric '", text, "': ", unknown_name("summary", metric.of, kinds));
  }
  return metric;
}

}  // namespace

void check_metric(std::string_view text) {
  const Metric metric = parse_metric(text);
  const auto curves = report::curve_names();
  if (metric.curve.empty() || std::ranges::find(curves, metric.curve) != curves.end()) return;
  throw_invalid("sweep", unknown_name("metric", metric.curve, curves));
}

Metric metric_of(std::string_view text, std::span<const Result> results) {
  Metric metric = parse_metric(text);
  const auto have = [&](std::string_view curve) {
    return std::ranges::any_of(
        results, [&](const Result& result) { return result.curves.contains(std::string(curve)); });
  };
  if (metric.curve.empty()) {
    metric.curve = have("val_accuracy") ? "val_accuracy" : have("val_loss") ? "val_loss" : "loss";
  } else if (!results.empty() && !have(metric.curve)) {
    std::vector<std::string_view> known;
    for (const auto& result : results) {
      for (const auto& [name, curve] : result.curves) {
        if (std::ranges::find(known, name) == known.end()) known.push_back(name);
      }
    }
    if (!known.empty()) throw_invalid("sweep", unknown_name("metric", metric.curve, known));
  }
  return metric;
}

double value_of(const CurveSummary& curve, const Metric& metric) {
  return metric.of == "tail" ? curve.tail : metric.of == "best" ? curve.best : curve.last;
}

std::string border_remark(const Axis& axis, size_t at) {
  const auto& here = axis.values[at].number;
  if (!here) return "";
  int above = 0, below = 0;
  for (const auto& value : axis.values) {
    above += value.number && *value.number > *here ? 1 : 0;
    below += value.number && *value.number < *here ? 1 : 0;
  }
  if (above + below == 0 || (above > 0 && below > 0)) return "";
  return "the best " + axis.name + ", " + axis.values[at].label + ", is the " +
         (above == 0 ? "largest" : "smallest") + " tried: the true best may lie beyond";
}

std::string Point::state() const {
  if (failed > 0) return "failed";
  if (diverged > 0) return "diverged";
  return stopped > 0 ? "stopped" : "not run";
}

bool Point::whole() const {
  return std::ranges::all_of(values, [](const auto& value) { return value.has_value(); });
}

std::optional<Estimate> Point::estimate(double level) const {
  const auto known = finished(*this);
  if (known.empty()) return std::nullopt;
  return mean_of(known, level);
}

std::string seeds_text(const Plan& plan) {
  const size_t count = plan.seeds.size();
  return count == 1 ? "one seed" : "mean of " + std::to_string(count) + " seeds";
}

std::string label_of(const Plan& plan, const Point& point) {
  std::string text;
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    text += (i > 0 ? ", " : "") + plan.axes[i].name + " " + plan.axes[i].values[point.at[i]].label;
  }
  return text.empty() ? "the base" : text;
}

Summary summarize(const Plan& plan, std::span<const Result> results) {
  Summary summary{.metric = metric_of(plan.metric, results), .points = {}, .remarks = {}};
  std::map<std::string, const Result*> by_cell;
  for (const auto& result : results) by_cell[result.cell] = &result;
  const bool higher = higher_is_better(summary.metric.curve);

  for (const auto& cell : cells_of(plan)) {
    if (summary.points.empty() || summary.points.back().at != cell.at) {
      summary.points.push_back({.at = cell.at, .values = {}});
    }
    auto& point = summary.points.back();
    auto& value = point.values.emplace_back();
    ++summary.planned;
    const auto found = by_cell.find(cell.name);
    if (found == by_cell.end()) {
      ++point.missing;
      continue;
    }
    ++summary.there;
    const Result& result = *found->second;
    if (result.status == Status::Diverged) ++point.diverged;
    if (result.status == Status::Failed) ++point.failed;
    if (result.status == Status::Stopped) {
      ++point.stopped;
      point.stop = result.reason;
    }
    const auto curve = result.curves.find(summary.metric.curve);
    if (result.status == Status::Finished && curve != result.curves.end()) {
      value = value_of(curve->second, summary.metric);
    }
  }

  for (size_t i = 0; i < summary.points.size(); ++i) {
    if (!summary.points[i].whole()) continue;
    const double here = summary.points[i].estimate()->value;
    if (!summary.best || better(here, summary.points[*summary.best].estimate()->value, higher)) {
      summary.best = i;
    }
  }
  if (summary.best) {
    const auto& best = summary.points[*summary.best];
    for (size_t i = 0; i < plan.axes.size(); ++i) {
      const auto text = border_remark(plan.axes[i], best.at[i]);
      if (!text.empty() && tried_along(summary, best, i)) summary.remarks.push_back(text);
    }
    if (const auto text = overlap(plan, summary); !text.empty()) summary.remarks.push_back(text);
  }
  add_counts(summary, summary.remarks);
  summary.remarks.push_back(budget(results));
  return summary;
}

}  // namespace normball::trainer::sweep
