#include "lab/rate_fit.h"

#include <cmath>

#include "normball/base/error.h"

namespace normball::lab {

RateFit fit_rate(std::vector<double> horizons, const std::vector<std::vector<double>>& samples) {
  if (horizons.size() < 2 || samples.size() != horizons.size()) {
    throw_invalid("fit_rate", "needs samples at two horizons or more, got ", horizons.size(),
                  " horizons and samples at ", samples.size());
  }
  RateFit fit{.horizons = std::move(horizons)};
  const size_t count = fit.horizons.size();
  for (const auto& sample : samples) {
    if (sample.size() < 2) throw_invalid("fit_rate", "needs two seeds or more at each horizon");
    const auto n = static_cast<double>(sample.size());
    double mean = 0, variance = 0;
    for (const double value : sample) mean += value / n;
    for (const double value : sample) variance += (value - mean) * (value - mean) / (n - 1);
    if (!(mean > 0)) throw_invalid("fit_rate", "means must be positive, got ", mean);
    fit.means.push_back(mean);
    fit.errors.push_back(std::sqrt(variance / n));
  }
  double center = 0, spread = 0, variance = 0;
  for (const double n : fit.horizons) center += std::log(n) / static_cast<double>(count);
  for (const double n : fit.horizons) spread += std::pow(std::log(n) - center, 2);
  for (size_t h = 0; h < count; ++h) {
    const double weight = (std::log(fit.horizons[h]) - center) / spread;
    fit.slope += weight * std::log(fit.means[h]);
    variance += std::pow(weight * fit.errors[h] / fit.means[h], 2);
  }
  // Student's quantile for the degrees of freedom of one horizon, to within 1 % from 8 seeds on.
  const double quantile = 1.96 + 2.4 / static_cast<double>(samples.front().size() - 1);
  fit.low = fit.slope - quantile * std::sqrt(variance);
  fit.high = fit.slope + quantile * std::sqrt(variance);
  return fit;
}

}  // namespace normball::lab
