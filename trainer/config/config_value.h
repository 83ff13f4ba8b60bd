// Keys by name, and TOML values put into their places: type, range, choices.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>

#include "trainer/config/config.h"
#include "trainer/config/config_keys.h"

namespace normball::trainer::config {

// An unknown name is an error with the nearest one; `where` is the file and line or the option.
void require_section(std::string_view name, std::string_view where);
const Key& find_key(std::string_view section, std::string_view name, std::string_view where);

// What does not fit the key is an error that says what would.
void assign(Config& config, const Key& key, const toml::node& node, const std::string& where);

// {value = ...} of a value as --set has it. What is no TOML is a text, which the key refuses by
// naming what it takes.
toml::table parse_value(const std::string& value, const Key& key, std::string_view where);

}  // namespace normball::trainer::config
