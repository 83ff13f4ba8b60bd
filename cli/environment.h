// What libraries read from the environment when they are loaded, chosen for this machine: the
// program starts itself once more with it. Only variables that nobody set.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "normball/base/processor.h"

namespace normball::cli {

struct Setting {
  std::string variable, value, reason;
  friend bool operator==(const Setting&, const Setting&) = default;
};

// What the choice rests on.
struct Surroundings {
  Processor processor;
  std::string blas_core;  // OpenBLAS's own choice; empty: another BLAS
  int cores = 1;          // that this process may run on
  int usable = 1;         // of them, by its control group
  bool computes = false;  // the command keeps threads busy, so that how they wait counts
};
// Of a command, such as "train".
Surroundings surroundings(std::string_view command);

using IsSet = std::function<bool(const std::string& variable)>;
std::vector<Setting> wanted_settings(const Surroundings& around, const IsSet& is_set);

// Starts the program again where it wants another environment; returns where it does not, where it
// has been started again already, and where that fails. Before threads and output.
void adopt_environment(char** argv);

// The variables that the program set for itself, separated by spaces.
std::string adopted_environment();

}  // namespace normball::cli
