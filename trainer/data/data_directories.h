// Where data sets lie that came with the system or were put there once for all programs:
// datasets/NAME in the data directories of the XDG base directory specification.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace normball::trainer::data {

// In the order in which they are searched: $XDG_DATA_HOME (default: ~/.local/share), then
// $XDG_DATA_DIRS (default: /usr/local/share and /usr/share). Relative paths in them are ignored, as
// the specification says.
std::vector<std::string> data_directories(std::string_view name);

}  // namespace normball::trainer::data
