// The pictures of an experiment, made of what is kept of its runs.
#pragma once

#include <vector>

#include "trainer/experiment/decision.h"
#include "trainer/sweep/pictures.h"

namespace normball::trainer::experiment {

// The metric over the steps of the deciding runs (curves.svg), s over them (dual-norm.svg, and
// gap.svg where constrained), and what tuning found of each arm (tuning-ARM.svg).
std::vector<sweep::Picture> pictures_of(const Experiment& experiment, const Decision& decision);

}  // namespace normball::trainer::experiment
