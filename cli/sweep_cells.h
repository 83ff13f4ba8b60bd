// The cells of a sweep, run side by side: all to their end, or with early stopping from rung to
// rung.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "trainer/sweep/plan.h"
#include "trainer/sweep/results.h"

namespace normball::cli {

struct CellRuns {
  const trainer::sweep::Plan& plan;
  const std::vector<trainer::sweep::Cell>& cells;  // of the plan
  std::filesystem::path into;
  int at_once = 1, threads = 1;
};

using CellResults = std::map<std::string, trainer::sweep::Result>;  // by cell

// Those of the cells, in their order.
std::vector<trainer::sweep::Result> in_order(const std::vector<trainer::sweep::Cell>& cells,
                                             const CellResults& results);

// Throws where the cells cannot be compared at the rungs.
void check_halving(const CellRuns& runs);

// Runs what has no result yet, and writes results.jsonl whenever one has ended. With early stopping
// the rungs are decided anew from what is there: what was stopped may go on, and what has gone on
// stays.
void run_cells(const CellRuns& runs, CellResults& results);

}  // namespace normball::cli
