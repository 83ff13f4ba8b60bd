#include "trainer/experiment/claim.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball::trainer::experiment {
namespace {

using sweep::Estimate;

constexpr std::array<std::string_view, 6> kind_names = {"better", "alike", "faster",
                                                        "rises",  "falls", "follows"};
constexpr std::array<std::string_view, 4> answer_names = {"holds here", "does not hold here",
                                                          "not decided here", "not run"};

// Wholly above the threshold, wholly below it, or neither.
Finding above(const Estimate& effect, double threshold) {
  if (effect.low > threshold) return {Answer::Holds, effect};
  if (effect.high < threshold) return {Answer::DoesNotHold, effect};
  return {Answer::NotDecided, effect, "the interval holds both"};
}

Finding below(const Estimate& effect, double threshold) {
  if (effect.high < threshold) return {Answer::Holds, effect};
  if (effect.low > threshold) return {Answer::DoesNotHold, effect};
  return {Answer::NotDecided, effect, "the interval holds both"};
}

// The share of the mean of y that a fitted line gives to x; none where x or the mean of y tells
// nothing.
std::optional<double> share_of_line(const Curve& y, const Curve& x) {
  std::vector<std::pair<double, double>> points;
  for (size_t i = 0, j = 0; i < y.size() && j < x.size();) {
    if (y[i].first == x[j].first) points.emplace_back(x[j].second, y[i].second);
    const bool behind = y[i].first <= x[j].first, ahead = x[j].first <= y[i].first;
    i += behind ? 1 : 0;
    j += ahead ? 1 : 0;
  }
  const auto count = static_cast<double>(points.size());
  double x_mean = 0, y_mean = 0, xx = 0, xy = 0;
  for (const auto& [a, b] : points) {
    x_mean += a / count;
    y_mean += b / count;
  }
  for (const auto& [a, b] : points) {
    xx += (a - x_mean) * (a - x_mean);
    xy += (a - x_mean) * (b - y_mean);
  }
  if (points.size() < 3 || !(xx > 0) || !(y_mean > 0)) return std::nullopt;
  return xy / xx * x_mean / y_mean;
}

}  // namespace

Kind parse_kind(std::string_view text, std::string_view where) {
  const auto found = std::ranges::find(kind_names, text);
  if (found == kind_names.end()) throw_invalid(where, unknown_name("kind", text, kind_names));
  return static_cast<Kind>(found - kind_names.begin());
}

std::string_view to_text(Kind kind) { return kind_names[static_cast<size_t>(kind)]; }

std::string_view to_text(Answer answer) { return answer_names[static_cast<size_t>(answer)]; }

Finding judge_better(std::span<const double> a, std::span<const double> b, bool higher_is_better,
                     double margin) {
  return above(higher_is_better ? sweep::paired_difference(a, b) : sweep::paired_difference(b, a),
               margin);
}

Finding judge_alike(std::span<const double> a, std::span<const double> b, double margin) {
  const auto effect = sweep::paired_difference(a, b, 0.90);
  if (effect.low >= -margin && effect.high <= margin) return {Answer::Holds, effect};
  if (effect.low > margin || effect.high < -margin) return {Answer::DoesNotHold, effect};
  return {Answer::NotDecided, effect, "the interval reaches over the margin"};
}

size_t smoothing_width(const Curve& curve) { return std::max<size_t>(1, curve.size() / 10); }

Curve smoothed(const Curve& curve, size_t width) {
  Curve result;
  for (size_t i = width; i <= curve.size(); ++i) {
    double sum = 0;
    for (size_t j = i - width; j < i; ++j) sum += curve[j].second;
    result.emplace_back(curve[i - 1].first, sum / static_cast<double>(width));
  }
  return result;
}

Finding judge_faster(std::span<const Curve> a, std::span<const Curve> b, double margin) {
  std::vector<double> steps_a, steps_b;
  size_t never = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const auto of_a = smoothed(a[i], smoothing_width(a[i]));
    const auto of_b = smoothed(b[i], smoothing_width(b[i]));
    if (of_a.empty() || of_b.empty()) return {.reason = "a curve has no points"};
    const double target = of_b.back().second;
    const auto reached_a = sweep::steps_to(of_a, target), reached_b = sweep::steps_to(of_b, target);
    if (!reached_b || *reached_b <= 0) return {.reason = "a loss is not finite"};
    if (!reached_a) ++never;
    steps_a.push_back(static_cast<double>(reached_a.value_or(of_a.back().first)));
    steps_b.push_back(static_cast<double>(*reached_b));
  }
  auto finding = below(sweep::paired_ratio(steps_a, steps_b), 1 - margin);
  // Such a run is counted as if its last step had reached it, which can only favour a.
  if (never > 0 && finding.answer == Answer::Holds) {
    finding.answer = Answer::NotDecided;
    finding.reason = std::to_string(never) + " of " + std::to_string(a.size()) +
                     " runs do not reach the loss at all";
  }
  return finding;
}

Finding judge_change(std::span<const double> late, std::span<const double> early, bool rises,
                     double margin) {
  const auto positive = [](double value) { return value > 0; };
  if (!std::ranges::all_of(late, positive) || !std::ranges::all_of(early, positive)) {
    return {.reason = "the curve is not positive throughout, so that it has no ratio"};
  }
  const auto ratio = sweep::paired_ratio(late, early);
  return rises ? above(ratio, 1 + margin) : below(ratio, 1 - margin);
}

Finding judge_follows(std::span<const Curve> y, std::span<const Curve> x, double margin) {
  std::vector<double> shares;
  for (size_t i = 0; i < std::min(y.size(), x.size()); ++i) {
    const auto share = share_of_line(y[i], x[i]);
    if (!share) return {.reason = "a run has too few points for a line"};
    shares.push_back(*share);
  }
  return above(sweep::mean_of(shares), margin);
}

std::optional<double> mean_within(const Curve& curve, const Window& window) {
  if (curve.empty()) return std::nullopt;
  const auto last = static_cast<double>(curve.back().first);
  double sum = 0;
  int count = 0;
  for (const auto& [step, value] : curve) {
    const double share = static_cast<double>(step) / last;
    if (share <= window.from || share > window.to) continue;
    sum += value;
    ++count;
  }
  if (count == 0 || !std::isfinite(sum)) return std::nullopt;
  return sum / count;
}

Answer all_of(std::span<const Finding> findings) {
  const auto is = [](Answer answer) {
    return [answer](const Finding& finding) { return finding.answer == answer; };
  };
  if (std::ranges::any_of(findings, is(Answer::DoesNotHold))) return Answer::DoesNotHold;
  if (!findings.empty() && std::ranges::all_of(findings, is(Answer::Holds))) return Answer::Holds;
  return Answer::NotDecided;
}

}  // namespace normball::trainer::experiment
