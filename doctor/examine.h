// The facts of this machine and process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/findings.h"

namespace normball::doctor {

// All but the rates; `directory` is where the disk is looked at.
Facts examine(const std::string& directory);

// OMP_WAIT_POLICY's value, in capitals or not, as OpenMP's runtimes read it.
bool sleeps_while_waiting(std::string_view policy);

// The core types worth comparing with on this processor: those of its level and below.
std::vector<std::string> core_types_to_compare(const Facts& facts);

}  // namespace normball::doctor
