// The paper's question on one problem: steepest descent needs a small step, normalized descent
// stalls at a floor in proportion to γρ, the hybrid gets both.
#pragma once

#include "lab/problem.h"
#include "plot/plot.h"

namespace normball::lab {

struct Picture {
  plot::Figure figure;
  std::string text;  // the constants, and how each method ended
};

// Throws where the problem has no constants to choose the stepsizes from.
Picture race(const Problem& problem, int steps);

}  // namespace normball::lab
