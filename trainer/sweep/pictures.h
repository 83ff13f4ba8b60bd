// The pictures of a sweep.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainer/sweep/plan.h"
#include "trainer/sweep/summary.h"

namespace normball::trainer::sweep {

struct Picture {
  std::string file;  // "heat-map.svg"
  std::string svg;
};

// What the axes allow: a curve over an axis of numbers, or several where a second axis has names
// (over_axis.h); a heat map of the first two (one for each place on the others); the axes side by
// side where there are more than two; and the metric over the steps of the best points, read from
// the run directories in `cells`.
std::vector<Picture> pictures_of(const Plan& plan, const Summary& summary,
                                 const std::filesystem::path& cells);

// With as many digits as tell neighbours apart: "0.8123", "1.52e-05", "81.2 %" of an accuracy.
std::string value_text(const Metric& metric, double value);

}  // namespace normball::trainer::sweep
