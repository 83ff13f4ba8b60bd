// Axes as files describe them.
#pragma once

#include "trainer/config/table_reader.h"
#include "trainer/sweep/plan.h"

namespace normball::trainer::sweep {

// The table of an [[axis]], which read_plan() describes.
Axis read_axis(config::TableReader& reader);

}  // namespace normball::trainer::sweep
