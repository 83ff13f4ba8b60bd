// Which program runs a command, and what libraries read from the environment when they are loaded,
// chosen for this machine: the program starts once more with it. Only variables that nobody set.
#pragma once

#include <functional>
#include <span>
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

// LibTorch takes a quarter of a second to load. So what needs it is in a program of its own, and
// the one that users call starts it for all commands but its own.
struct CommandPrograms {
  std::span<const std::string_view> commands_here;
  std::string other;  // its file name, in the same directory; empty: all commands are here
};

// Becomes the program that has the command, in the environment that the command wants. Returns
// where this program has it and the environment is as wanted, or cannot be changed. To be called
// before threads and output.
void adopt_environment(char** argv, const CommandPrograms& programs);

// The variables that the program set for itself, separated by spaces.
std::string adopted_environment();

}  // namespace normball::cli
