// Random damage to files, for the drivers here and for tests.
#pragma once

#include <string>

#include "normball/random.h"

namespace normball::fuzz {

// One to four of: a changed bit or byte, a telling value where headers are, a part cut out,
// doubled, or put in from another sample or from a list of what parsers dislike.
std::string mutated(std::string file, const std::string& other, Random& random);

}  // namespace normball::fuzz
