// What `normball tune` says of its search: a table, curves, and what to copy.
#pragma once

#include <string>
#include <vector>

#include "cli/table.h"
#include "normball/tuning.h"
#include "plot/plot.h"
#include "trainer/sweep/summary.h"

namespace normball::cli {

// One row for each point: rho (where there is one), lr, the metric with the first seed, which all
// have, and over the seeds of those that were repeated.
Table tuning_table(const TuningResult& result, const trainer::sweep::Metric& metric);

// The metric of the first seed over lr, a curve for each rho that has three points or more.
plot::Figure lr_figure(const TuningResult& result, const trainer::sweep::Metric& metric);
// The same over rho, of the second stage; those below and above every s are level lines. Without
// curves where rho was not tuned.
plot::Figure rho_figure(const TuningResult& result, const trainer::sweep::Metric& metric);

// "--set optimizer.lr=0.1 --set optimizer.rho=3"
std::string settings_text(const TuningPoint& point);

}  // namespace normball::cli
