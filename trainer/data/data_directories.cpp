#include "trainer/data/data_directories.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace normball::trainer::data {
namespace {

// An empty variable counts as one that is not set.
std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::vector<std::string> data_directories(std::string_view name) {
  std::vector<std::string> found;
  const auto add = [&](const std::filesystem::path& base) {
    if (base.is_absolute()) found.push_back((base / "datasets" / name).string());
  };
  const std::string own = environment("XDG_DATA_HOME"), home = environment("HOME");
  if (!own.empty()) {
    add(own);
  } else if (!home.empty()) {
    add(std::filesystem::path(home) / ".local" / "share");
  }
  const std::string shared = environment("XDG_DATA_DIRS");
  std::istringstream entries(shared.empty() ? "/usr/local/share:/usr/share" : shared);
  for (std::string entry; std::getline(entries, entry, ':');) add(entry);
  return found;
}

}  // namespace normball::trainer::data
