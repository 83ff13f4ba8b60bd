// A configuration file with those it extends: `extends = "other"` at its top takes all of another
// file or preset over, and states only what sets this one apart.
#pragma once

#include <toml++/toml.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace normball::trainer::config {

// One file's sections, without `extends`.
struct ConfigLayer {
  std::string where;  // its path, for messages
  toml::table sections;
};

// The file and those it extends, the most basic first. A name is looked up beside the file that
// gives it, with or without .toml, then among the presets.
std::vector<ConfigLayer> config_layers(const std::filesystem::path& path);

// Parsed text; an error names `where` and the line.
toml::table parse_toml(std::string_view text, std::string_view where);

// "mine.toml:3".
std::string at_line(std::string_view where, const toml::source_region& source);

}  // namespace normball::trainer::config
