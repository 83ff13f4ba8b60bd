// Errors of configuration files and settings.
#pragma once

#include <stdexcept>
#include <string_view>

#include "normball/error.h"
#include "trainer/config/config.h"

namespace normball::trainer::config {

// `where` is a file, with or without a line, or an option of the command line.
template <class... Parts>
[[noreturn]] void wrong(std::string_view where, const Parts&... parts) {
  const std::string text = normball::detail::message("config", where, ": ", parts...);
  if (where.starts_with("--")) throw SettingError(text);
  throw std::invalid_argument(text);
}

}  // namespace normball::trainer::config
