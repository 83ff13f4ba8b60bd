// How much memory is allocated at the same time.
#pragma once

#include <cstddef>

namespace normball::fuzz {

// Starts over: the peak is what is in use now.
void watch_allocations();
// The most in use at one time since then, beyond what was in use at its start.
std::size_t peak_allocation();

}  // namespace normball::fuzz
