// Options that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/config_keys.h"

namespace normball::cli {

// --set section.key=value, as often as wanted.
void add_settings(CLI::App& command, std::vector<std::string>& settings);

// Throws CLI::ValidationError where --set gives the key that `option` stands for as well.
void require_not_set(const std::vector<std::string>& settings, std::string_view key,
                     std::string_view option);

// The configuration; what became of a preset's keys goes to standard error.
trainer::config::Config load_with_warnings(const std::string& name_or_file,
                                           const std::vector<std::string>& settings);

// A finite number in the range.
CLI::Validator number_in(const trainer::config::Range& range);
// The same of integers; the limits are integers as well.
CLI::Validator integer_in(std::int64_t low, std::int64_t high);

// What a function reads without throwing std::invalid_argument.
template <class Read>
CLI::Validator read_by(Read read) {
  return {[read](const std::string& text) {
            try {
              read(text);
              return std::string();
            } catch (const std::invalid_argument& error) {
              return std::string(error.what());
            }
          },
          ""};
}

}  // namespace normball::cli
