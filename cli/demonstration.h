// What `normball demo` makes of its runs: a table, a figure, and a conclusion computed from them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/table.h"
#include "plot/plot.h"

namespace normball::cli {

// One training run of the demonstration.
struct DemoRun {
  bool clipped = false;  // ClippedScion, else Scion
  double lr = 0;
  int seed = 0;
  // The loss minus the smallest possible one, after each step; not finite where it diverged.
  std::vector<double> excess = {};
  double last_step = 0;  // the length of the last step relative to lr: min(1, s / rho), or 1
  double accuracy = 0;   // on the test images, in [0, 1]
};

// The entropy of labels smoothed by `smoothing`: no network has a smaller cross-entropy on them.
double smallest_loss(double smoothing, int classes);

// Each once, in the order in which they first came: what is one number is one stepsize, however it
// was written.
std::vector<double> different_stepsizes(std::span<const double> lrs);

// One row for each stepsize: geometric means over the seeds, and their range.
Table demo_table(std::span<const DemoRun> runs);
// Excess loss over the steps, a curve for each method and stepsize.
plot::Figure demo_figure(std::span<const DemoRun> runs);
// Which method ended closer to the smallest loss, and by how much. A difference counts only where
// every seed of one method is below every seed of the other.
std::string demo_conclusion(std::span<const DemoRun> runs);

}  // namespace normball::cli
