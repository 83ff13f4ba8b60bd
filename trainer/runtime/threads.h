// The threads of a process that trains.
#pragma once

#include <cstdint>

namespace normball::trainer::runtime {

// Sets the threads of LibTorch and OpenMP; 0: as many as this process may use. Returns how many.
int use_threads(std::int64_t threads);

}  // namespace normball::trainer::runtime
