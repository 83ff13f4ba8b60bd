// How long OpenMP's threads spin at a barrier before they sleep.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace normball::cli {

// The variables that GNU's OpenMP runtime should find when it is loaded, which is before main():
// none where the user has chosen. Its own choice, 300,000 turns (milliseconds), is 10 to 60 times
// slower beside other programs: a thread that waits for one that does not run keeps the core from
// it. docs/performance.md has the measurements.
std::vector<std::pair<std::string, std::string>> set_wait_policy();

}  // namespace normball::cli
