#include "trainer/sweep/halving.h"

#include <algorithm>
#include <cmath>

#include "trainer/report/report.h"
#include "trainer/sweep/pictures.h"

namespace normball::trainer::sweep {
namespace {

std::string ordinal(size_t number) {
  const size_t last = number % 10;
  const bool teen = number % 100 / 10 == 1;
  const char* ending = teen || last == 0 || last > 3 ? "th"
                       : last == 1                   ? "st"
                       : last == 2                   ? "nd"
                                                     : "rd";
  return std::to_string(number) + ending;
}

}  // namespace

std::vector<std::int64_t> rungs_of(const Halving& halving, std::int64_t steps) {
  std::vector<std::int64_t> rungs;
  for (std::int64_t step = halving.first; step < steps; step *= halving.factor)
    rungs.push_back(step);
  return rungs;
}

std::optional<double> value_at(const std::filesystem::path& run, const Metric& metric,
                               std::int64_t step) {
  if (!std::filesystem::exists(run / "metrics.jsonl")) return std::nullopt;
  const auto data = report::read_run(run, report::EarlierEnds::LeaveOut);
  const auto found = data.curves.find(metric.curve);
  if (found == data.curves.end()) return std::nullopt;
  auto points = found->second;
  std::erase_if(points, [&](const report::CurvePoint& point) {
    return point.step > static_cast<double>(step);
  });
  if (points.empty() || points.back().step < static_cast<double>(step) ||
      !std::isfinite(points.back().value)) {
    return std::nullopt;
  }
  std::erase_if(points,
                [](const report::CurvePoint& point) { return !std::isfinite(point.value); });
  return value_of(summary_of(points, higher_is_better(metric.curve)), metric);
}

Ranking rank(std::span<const std::optional<double>> means, std::int64_t factor, bool higher) {
  Ranking ranking{.best_first = {}, .points = means.size()};
  for (size_t i = 0; i < means.size(); ++i) {
    if (means[i]) ranking.best_first.push_back(i);
  }
  std::ranges::stable_sort(ranking.best_first, [&](size_t a, size_t b) {
    return higher ? *means[a] > *means[b] : *means[a] < *means[b];
  });
  const auto share = static_cast<size_t>(factor);
  ranking.go_on = std::min((means.size() + share - 1) / share, ranking.best_first.size());
  return ranking;
}

bool Ranking::goes_on(size_t point) const {
  const auto end = best_first.begin() + static_cast<std::ptrdiff_t>(go_on);
  return std::find(best_first.begin(), end, point) != end;
}

std::string Ranking::reason(size_t point, const std::string& place, const Metric& metric,
                            std::optional<double> mean) const {
  const std::string rest =
      go_on == 1 ? ", the best one goes on" : ", the best " + std::to_string(go_on) + " go on";
  if (!mean) return "stopped at " + place + ": not all of its seeds came that far" + rest;
  const auto at = std::ranges::find(best_first, point) - best_first.begin();
  return "stopped at " + place + ": " + ordinal(static_cast<size_t>(at) + 1) + " of " +
         std::to_string(points) + " by " + metric.text() + " (" + value_text(metric, *mean) + ")" +
         rest;
}

}  // namespace normball::trainer::sweep
