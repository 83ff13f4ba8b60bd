#include "cli/options.h"

#include <charconv>
#include <cmath>
#include <iostream>

#include "trainer/runtime/terminal.h"

namespace normball::cli {

void add_settings(CLI::App& command, std::vector<std::string>& settings) {
  // One value each, so that what follows is not taken for another setting.
  command
      .add_option("--set", settings,
                  "section.key=value; for several: --set a.b=1 --set c.d=2. `normball config "
                  "--keys` lists the keys")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
}

void require_not_set(const std::vector<std::string>& settings, std::string_view key,
                     std::string_view option) {
  for (const auto& setting : settings) {
    if (std::string_view(setting).substr(0, setting.find('=')) != key) continue;
    throw CLI::ValidationError(std::string(option) + " and --set " +
                               trainer::runtime::one_line(setting) +
                               " give the same; leave one out");
  }
}

trainer::config::Config load_with_warnings(const std::string& name_or_file,
                                           const std::vector<std::string>& settings) {
  std::vector<std::string> warnings;
  auto config = trainer::config::load_config(name_or_file, settings, &warnings);
  for (const auto& warning : warnings) std::cerr << "normball: warning: " << warning << '\n';
  return config;
}

CLI::Validator number_in(const trainer::config::Range& range) {
  return {[range](const std::string& value) {
            double number = 0;
            const bool fits = CLI::detail::lexical_cast(value, number) && std::isfinite(number) &&
                              range.contains(number);
            return fits ? std::string() : "must be a number " + range.text() + ", got " + value;
          },
          range.text()};
}

CLI::Validator integer_in(std::int64_t low, std::int64_t high) {
  const std::string range = "in [" + std::to_string(low) + ", " + std::to_string(high) + "]";
  return {[=](const std::string& value) {
            std::int64_t number = 0;
            const char* end = value.data() + value.size();
            const auto [rest, error] = std::from_chars(value.data(), end, number);
            const bool fits =
                error == std::errc() && rest == end && number >= low && number <= high;
            return fits ? std::string() : "must be an integer " + range + ", got " + value;
          },
          range};
}

}  // namespace normball::cli
