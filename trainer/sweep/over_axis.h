// Pictures of the metric over an axis of numbers.
#pragma once

#include <vector>

#include "trainer/sweep/pictures.h"

namespace normball::trainer::sweep {

// Of a single axis of numbers one curve; of such an axis and one without any number, in whichever
// order, one curve for each name, and where the numbers are logarithmic the same curves again, each
// over its numbers divided by its own best one: how flat they are. Otherwise none.
std::vector<Picture> over_axis(const Plan& plan, const Summary& summary);

}  // namespace normball::trainer::sweep
