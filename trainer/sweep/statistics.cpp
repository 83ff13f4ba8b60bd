#include "trainer/sweep/statistics.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "normball/base/error.h"

namespace normball::trainer::sweep {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Of the mean, from the spread of the values about it.
double standard_error(std::span<const double> values) {
  const double centre = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - centre) * (value - centre);
  const auto count = static_cast<double>(values.size());
  return std::sqrt(squares / (count - 1) / count);
}

void require_finite(std::span<const double> values) {
  if (values.empty()) throw_invalid("statistics", "there are no observations");
  for (const double value : values) {
    if (!std::isfinite(value)) {
      throw_invalid("statistics", "an observation is ", value, "; leave out runs that diverged");
    }
  }
}

template <class Combine>
std::vector<double> pairs(std::span<const double> a, std::span<const double> b, Combine combine) {
  if (a.size() != b.size()) {
    throw_invalid("statistics", "pairs need as many observations on both sides, got ", a.size(),
                  " and ", b.size());
  }
  std::vector<double> result;
  for (size_t i = 0; i < a.size(); ++i) result.push_back(combine(a[i], b[i]));
  return result;
}

std::vector<double> differences(std::span<const double> a, std::span<const double> b) {
  return pairs(a, b, [](double x, double y) { return x - y; });
}

}  // namespace

double student_cdf(double t, int degrees) {
  if (degrees < 1) throw_invalid("statistics", "degrees of freedom: ", degrees, ", need >= 1");
  if (std::isinf(t)) return t > 0 ? 1 : 0;
  // P(|T| <= |t|) with theta = atan(|t| / sqrt(degrees)).
  const double theta = std::atan(std::abs(t) / std::sqrt(degrees));
  const double sine = std::sin(theta), cosine = std::cos(theta);
  const bool odd = degrees % 2 == 1;
  double term = odd ? cosine : 1, sum = degrees == 1 ? 0 : term;
  for (int j = odd ? 3 : 2; j < degrees; j += 2) {
    term *= cosine * cosine * (j - 1) / j;
    sum += term;
  }
  const double within = odd ? 2 / std::numbers::pi * (theta + sine * sum) : sine * sum;
  return t < 0 ? (1 - within) / 2 : (1 + within) / 2;
}

double student_quantile(double probability, int degrees) {
  if (!(probability > 0 && probability < 1)) {
    throw_invalid("statistics", "a probability must be in (0, 1), got ", probability);
  }
  double low = -1, high = 1;
  while (student_cdf(low, degrees) > probability) low *= 2;
  while (student_cdf(high, degrees) < probability) high *= 2;
  for (double middle = 0; middle = (low + high) / 2, middle > low && middle < high;) {
    (student_cdf(middle, degrees) < probability ? low : high) = middle;
  }
  return high;
}

Estimate mean_of(std::span<const double> values, double level) {
  if (!(level > 0 && level < 1)) {
    throw_invalid("statistics", "a confidence level must be in (0, 1), got ", level);
  }
  require_finite(values);
  const auto count = static_cast<int>(values.size());
  const double value = mean(values);
  if (count == 1) return {value, -kInfinity, kInfinity, count};
  const double reach = student_quantile((1 + level) / 2, count - 1) * standard_error(values);
  return {value, value - reach, value + reach, count};
}

Estimate paired_difference(std::span<const double> a, std::span<const double> b, double level) {
  return mean_of(differences(a, b), level);
}

Estimate paired_ratio(std::span<const double> a, std::span<const double> b, double level) {
  const auto logarithms = pairs(a, b, [](double x, double y) {
    if (!(x > 0 && y > 0)) {
      throw_invalid("statistics", "a ratio needs positive observations, got ", x, " and ", y);
    }
    return std::log(x / y);
  });
  const auto result = mean_of(logarithms, level);
  return {std::exp(result.value), std::exp(result.low), std::exp(result.high), result.count};
}

double p_value(std::span<const double> a, std::span<const double> b) {
  const auto values = differences(a, b);
  require_finite(values);
  if (values.size() == 1) return 1;
  const double error = standard_error(values), centre = mean(values);
  if (error == 0) return centre == 0 ? 1 : 0;
  return 2 * student_cdf(-std::abs(centre) / error, static_cast<int>(values.size()) - 1);
}

Verdict judge(const Estimate& difference, double margin) {
  if (difference.low >= -margin && difference.high <= margin) return Verdict::Equivalent;
  if (difference.high < 0) return Verdict::Less;
  if (difference.low > 0) return Verdict::Greater;
  return Verdict::Undecided;
}

std::optional<std::int64_t> steps_to(std::span<const std::pair<std::int64_t, double>> curve,
                                     double target) {
  std::optional<std::int64_t> since;
  for (const auto& [step, value] : curve) {
    if (!(value <= target)) {
      since.reset();
    } else if (!since) {
      since = step;
    }
  }
  return since;
}

}  // namespace normball::trainer::sweep
