// Presets: the TOML files of configs/, found by name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace normball::trainer::config {

// $NORMBALL_CONFIGS, else share/normball/configs beside the running program's bin, else configs/ of
// the source tree it was built from.
std::vector<std::filesystem::path> config_directories();

struct Preset {
  std::string name;
  std::filesystem::path path;
  std::string summary;  // the file's first comment line
};
std::vector<Preset> presets();  // by name; the first directory that has one counts

// The file of the preset with this name.
std::optional<std::filesystem::path> find_preset(std::string_view name);

// A path that exists, or a preset's name; otherwise throws with the nearest preset.
std::filesystem::path find_config(std::string_view name_or_file);

}  // namespace normball::trainer::config
