// What `normball doctor` and the benchmarks' heads share.
#pragma once

#include <string>
#include <vector>

#include "doctor/findings.h"

namespace normball::cli {

// Processor, BLAS and threads, and whatever is wrong, without measuring.
std::string machine_head();

// In the program with LibTorch: its version and oneDNN's.
void add_training_libraries(std::vector<doctor::Finding>& findings);

}  // namespace normball::cli
