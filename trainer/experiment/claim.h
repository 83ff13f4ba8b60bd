// What an experiment claims, and what the numbers of its runs say about it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/sweep/statistics.h"

namespace normball::trainer::experiment {

// The interval of the effect decides, against a margin that was fixed before the runs.
enum class Kind {
  Better,  // the metric of a is better than that of b by more than the margin
  Alike,   // they differ by no more than the margin: two one-sided tests
  Faster,  // a reaches the loss that b ends at in fewer steps: by more than the margin, a share
  Rises,   // a curve of a is higher late than early: by more than the margin, a share
  Falls,   // lower
  Follows  // it grows with another curve of the same run, as a line: by more than the margin
};
Kind parse_kind(std::string_view text, std::string_view where);
std::string_view to_text(Kind kind);

// A stretch of a run, in shares of its steps.
struct Window {
  double from = 0, to = 1;

  bool operator==(const Window&) const = default;
};

struct Claim {
  std::string text;  // for people
  Kind kind = Kind::Better;
  std::string a, b = {};  // arms; Rises, Falls and Follows have only a
  double margin = 0;
  std::string curve = {};        // of Rises, Falls and Follows
  Window early = {}, late = {};  // of Rises and Falls
  std::string along = {};        // of Follows: the other curve
};

enum class Answer { Holds, DoesNotHold, NotDecided, NotRun };
std::string_view to_text(Answer answer);  // "holds here", ...

struct Finding {
  Answer answer = Answer::NotDecided;
  std::optional<sweep::Estimate> effect = {};  // none: the runs do not give one
  std::string reason = {};                     // of one that is not decided
};

using Curve = std::vector<std::pair<std::int64_t, double>>;  // by step

// Observations of the same seed stand at the same place in both.

// The effect is how much better a is: a - b, or b - a where lower is better. 95 % interval.
Finding judge_better(std::span<const double> a, std::span<const double> b, bool higher_is_better,
                     double margin);
// The effect is a - b, with the 90 % interval of two one-sided tests at 5 % each.
Finding judge_alike(std::span<const double> a, std::span<const double> b, double margin);
// The effect is the ratio of steps, a to b, with its 95 % interval.
Finding judge_faster(std::span<const Curve> a, std::span<const Curve> b, double margin);
// The effect is the ratio late to early of positive observations, with its 95 % interval.
Finding judge_change(std::span<const double> late, std::span<const double> early, bool rises,
                     double margin);

// Of the line y = c + k x fitted to a run (least squares), the share k x̄ / ȳ that its mean owes to
// x: 0 where y does not depend on x, 1 where it is proportional to it. The effect is the mean over
// the runs, with its 95 % interval.
Finding judge_follows(std::span<const Curve> y, std::span<const Curve> x, double margin);

// Each point becomes the mean of itself and those before it, `width` in all; the first ones, which
// have too few before them, are left out.
Curve smoothed(const Curve& curve, size_t width);
// The width that judge_faster() smooths with: a tenth of the points.
size_t smoothing_width(const Curve& curve);

// The mean of the points whose steps are within the window; none where there are none, or one is
// not finite.
std::optional<double> mean_within(const Curve& curve, const Window& window);

// All claims of an experiment together: it holds if each holds, and does not if one does not.
Answer all_of(std::span<const Finding> findings);

}  // namespace normball::trainer::experiment
