// The statistics of comparisons: means with intervals, paired differences, ratios, equivalence.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace normball::trainer::sweep {

// P(T <= t) for Student's distribution, exactly: degrees of freedom are whole numbers here, for
// which it is a finite sum (Abramowitz and Stegun 26.7.3 and 26.7.4).
double student_cdf(double t, int degrees);
// The t with P(T <= t) = probability, which is in (0, 1).
double student_quantile(double probability, int degrees);

// A mean with a two-sided confidence interval. One observation has no interval: low = -inf,
// high = inf.
struct Estimate {
  double value = 0;
  double low = 0, high = 0;
  int count = 0;

  bool operator==(const Estimate&) const = default;
};

// By Student's t. Throws std::invalid_argument where there are no observations or one is not
// finite, or where the level is not in (0, 1).
Estimate mean_of(std::span<const double> values, double level = 0.95);

// The mean of a[i] - b[i]: the same seed, data and order in both, so that what the seed does to
// both cancels.
Estimate paired_difference(std::span<const double> a, std::span<const double> b,
                           double level = 0.95);

// The geometric mean of a[i] / b[i], all positive, with the interval of the logarithms' mean.
Estimate paired_ratio(std::span<const double> a, std::span<const double> b, double level = 0.95);

// The probability of a mean at least as far from 0, were the true one 0 (the paired t test,
// two-sided).
double p_value(std::span<const double> a, std::span<const double> b);

// What a difference a - b comes to, by its interval alone.
enum class Verdict {
  Less,        // the interval lies below 0, and not within the margin
  Greater,     // above 0, and not within the margin
  Equivalent,  // within [-margin, margin]: two one-sided tests, each at (1 - level) / 2
  Undecided
};
Verdict judge(const Estimate& difference, double margin);

// The first step from which on the curve stays at or below the target for good; none where it does
// not. Points in the order of their steps; a value that is not finite counts as above.
std::optional<std::int64_t> steps_to(std::span<const std::pair<std::int64_t, double>> curve,
                                     double target);

}  // namespace normball::trainer::sweep
