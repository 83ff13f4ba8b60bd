// What a run that was made longer recorded only because it ended there at first.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/run/metrics.h"

namespace normball::trainer::report {

// The last step of a run is evaluated and logged whether or not run.eval_every (0: never before)
// and run.log_every ask for it. Where the run went on later, these lines are removed: a run of the
// whole length in one go does not have them. What was not finite stays.
void remove_earlier_ends(std::vector<run::MetricsLine>& lines, std::int64_t log_every,
                         std::int64_t eval_every);

}  // namespace normball::trainer::report
