#include "trainer/experiment/pictures.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "plot/band_chart.h"

namespace normball::trainer::experiment {
namespace {

// Mean, least and largest over the runs, at each step that all of them have.
std::vector<plot::BandChart::Point> band_of(const ArmState& state, const std::string& name) {
  std::map<std::int64_t, std::vector<double>> at_step;
  size_t runs = 0;
  for (const auto* run : state.runs) {
    if (run == nullptr) continue;
    ++runs;
    const auto found = run->curves.find(name);
    if (found == run->curves.end()) return {};
    for (const auto& [step, value] : found->second) at_step[step].push_back(value);
  }
  std::vector<plot::BandChart::Point> points;
  for (const auto& [step, values] : at_step) {
    if (values.size() != runs) continue;
    double sum = 0;
    for (const double value : values) sum += value;
    const auto [low, high] = std::ranges::minmax(values);
    points.push_back({static_cast<double>(step), sum / static_cast<double>(runs), low, high});
  }
  return points;
}

void add_curves(const Experiment& experiment, const Decision& decision, const std::string& name,
                const std::string& title, const std::string& file,
                std::vector<sweep::Picture>& pictures) {
  plot::BandChart chart{.title = title,
                        .subtitle =
                            "mean of the deciding runs, band: from the lowest to the "
                            "highest seed",
                        .x_label = "step",
                        .y_label = title,
                        .series = {}};
  double low = INFINITY, high = 0;
  for (const auto& arm : experiment.arms) {
    auto points = band_of(decision.arms.at(arm.name), name);
    for (const auto& point : points) {
      low = std::min(low, point.low);
      high = std::max(high, point.high);
    }
    if (!points.empty()) chart.series.push_back({arm.name, std::move(points), false});
  }
  if (chart.series.empty()) return;
  chart.logarithmic = low > 0 && high > 20 * low;
  pictures.push_back({file, plot::to_svg(chart)});
}

}  // namespace

std::vector<sweep::Picture> pictures_of(const Experiment& experiment, const Decision& decision) {
  std::vector<sweep::Picture> pictures;
  add_curves(experiment, decision, decision.metric.curve, decision.metric.curve, "curves.svg",
             pictures);
  add_curves(experiment, decision, "dual_norm", "s", "dual-norm.svg", pictures);
  add_curves(experiment, decision, "gap", "gap", "gap.svg", pictures);
  for (const auto& arm : experiment.arms) {
    const auto& state = decision.arms.at(arm.name);
    if (!state.tuned) continue;
    // Of the grid alone: the run directories, whose curves it would add, may be elsewhere.
    for (auto& picture : sweep::pictures_of(state.tuning, *state.tuned, "")) {
      pictures.push_back({"tuning-" + arm.name + "-" + picture.file, std::move(picture.svg)});
    }
  }
  return pictures;
}

}  // namespace normball::trainer::experiment
