// Options that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "trainer/run/config.h"

namespace normball::cli {

// --set section.key=value, as often as wanted.
void add_settings(CLI::App& command, std::vector<std::string>& settings);

// The configuration; what became of a preset's keys goes to standard error.
run::Config load_with_warnings(const std::string& name_or_file,
                               const std::vector<std::string>& settings);

// A number of that size or more.
CLI::Validator at_least(double low);

}  // namespace normball::cli
