#include "trainer/config/presets.h"

#include <fstream>
#include <map>

#include "normball/base/error.h"
#include "normball/base/text.h"
#include "trainer/files/shared_directories.h"

namespace normball::trainer::config {
namespace fs = std::filesystem;
namespace {

std::string first_comment(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  const auto begin = line.find_first_not_of("# ");
  return line.starts_with('#') && begin != std::string::npos ? line.substr(begin) : "";
}

}  // namespace

std::vector<fs::path> config_directories() {
  return files::shared_directories("NORMBALL_CONFIGS", NORMBALL_CONFIG_INSTALL_DIR,
                                   NORMBALL_CONFIG_SOURCE_DIR);
}

std::vector<Preset> presets() {
  std::map<std::string, fs::path> found;
  for (const auto& directory : config_directories()) {
    for (const auto& entry : fs::directory_iterator(directory)) {
      if (entry.path().extension() == ".toml") {
        found.emplace(entry.path().stem().string(), entry.path());
      }
    }
  }
  std::vector<Preset> result;
  for (const auto& [name, path] : found) result.push_back({name, path, first_comment(path)});
  return result;
}

std::optional<fs::path> find_preset(std::string_view name) {
  for (const auto& preset : presets()) {
    if (preset.name == name) return preset.path;
  }
  return std::nullopt;
}

fs::path find_config(std::string_view name_or_file) {
  if (fs::path path(name_or_file); fs::is_regular_file(path)) return path;
  if (fs::is_directory(name_or_file)) {
    const fs::path inside = fs::path(name_or_file) / "config.toml";
    normball::throw_invalid("config", name_or_file, " is a directory; name a TOML file",
                            fs::is_regular_file(inside) ? ", such as " + inside.string() : "",
                            ", or a preset (`normball config --list`)");
  }
  if (auto path = find_preset(name_or_file)) return *path;
  const auto all = presets();
  std::vector<std::string_view> names;
  for (const auto& preset : all) names.push_back(preset.name);
  const std::string text = unknown_name("file or preset", name_or_file, names);
  normball::throw_invalid("config", text.substr(0, text.find(" Allowed:")),
                          " `normball config --list` shows the presets");
}

}  // namespace normball::trainer::config
