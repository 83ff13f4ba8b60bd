// An experiment as a page, and as the lines that a table of experiments has of it.
#pragma once

#include <span>
#include <string>

#include "trainer/experiment/decision.h"
#include "trainer/sweep/pictures.h"

namespace normball::trainer::experiment {

std::string page_of(const Experiment& experiment, const Decision& decision,
                    std::span<const sweep::Picture> pictures);

// The metric of an arm over its deciding runs with the 95 % interval; empty where none finished.
std::string value_of_arm(const ArmState& state, const sweep::Metric& metric);

// "| [name](...) | statement | **holds here** | effects | seeds, runs, hours |" for docs.
std::string markdown_row(const Experiment& experiment, const Decision& decision);

}  // namespace normball::trainer::experiment
