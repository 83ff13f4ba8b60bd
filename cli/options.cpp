#include "cli/options.h"

#include <cmath>
#include <iostream>

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

run::Config load_with_warnings(const std::string& name_or_file,
                               const std::vector<std::string>& settings) {
  std::vector<std::string> warnings;
  auto config = run::load_config(name_or_file, settings, &warnings);
  for (const auto& warning : warnings) std::cerr << "normball: warning: " << warning << '\n';
  return config;
}

CLI::Validator number_in(const run::Range& range) {
  return {[range](const std::string& value) {
            double number = 0;
            const bool fits = CLI::detail::lexical_cast(value, number) && std::isfinite(number) &&
                              range.contains(number);
            return fits ? std::string() : "must be a number " + range.text() + ", got " + value;
          },
          range.text()};
}

}  // namespace normball::cli
