// The exponent p of a measured rate n^p: the slope of log(mean over seeds) against log n.
#pragma once

#include <vector>

namespace normball::lab {

struct RateFit {
  double slope = 0;
  double low = 0, high = 0;  // the slope's 95 % interval over seeds
  std::vector<double> horizons = {}, means = {}, errors = {};  // errors: of the means
};

// samples[h][seed] belongs to horizons[h]; seeds must differ from one horizon to the next for the
// interval to hold. Least squares with equal weights; the variance of log(mean) is
// (standard error / mean)².
RateFit fit_rate(std::vector<double> horizons, const std::vector<std::vector<double>>& samples);

}  // namespace normball::lab
