// A sweep as one self-contained page: remarks, pictures, and a table that can be sorted.
#pragma once

#include <span>
#include <string>

#include "trainer/sweep/pictures.h"
#include "trainer/sweep/plan.h"
#include "trainer/sweep/results.h"
#include "trainer/sweep/summary.h"

namespace normball::trainer::sweep {

// Links go to the run directories beside the page.
std::string page_of(const Plan& plan, const Summary& summary, std::span<const Result> results,
                    std::span<const Picture> pictures);

}  // namespace normball::trainer::sweep
