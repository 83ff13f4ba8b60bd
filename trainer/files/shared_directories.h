// Where files that come with the program are: presets, experiments.
#pragma once

#include <filesystem>
#include <vector>

namespace normball::trainer::files {

// Those that exist of: what the environment variable names, `installed` relative to the directory
// above the running program's, and `source`, in the tree that it was built from.
std::vector<std::filesystem::path> shared_directories(const char* variable,
                                                      const std::filesystem::path& installed,
                                                      const std::filesystem::path& source);

}  // namespace normball::trainer::files
