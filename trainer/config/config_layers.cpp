#include "trainer/config/config_layers.h"

#include <algorithm>
#include <optional>

#include "trainer/config/config_error.h"
#include "trainer/config/presets.h"
#include "trainer/files/file_system.h"

namespace normball::trainer::config {
namespace fs = std::filesystem;
namespace {

constexpr std::uintmax_t max_file = 1 << 20;

fs::path find_extended(const fs::path& file, const std::string& name, const std::string& where) {
  const fs::path beside = file.parent_path() / name;
  for (const fs::path& path : {beside, fs::path(beside.string() + ".toml")}) {
    if (fs::is_regular_file(path)) return path;
  }
  if (const auto preset = find_preset(name)) return *preset;
  wrong(where, "extends = \"", name, "\": neither a file beside ", file.filename().string(),
        " nor a preset (`normball config --list`)");
}

// Takes `extends` out of the sections.
std::optional<fs::path> take_extended(const fs::path& file, ConfigLayer& layer) {
  const auto found = layer.sections.find("extends");
  if (found == layer.sections.end()) return std::nullopt;
  const std::string where = at_line(layer.where, found->first.source());
  const auto* name = found->second.as_string();
  if (name == nullptr || name->get().empty()) {
    wrong(where, "extends must be the name of a file or preset in quotes");
  }
  const fs::path path = find_extended(file, name->get(), where);
  layer.sections.erase(found);
  return path;
}

}  // namespace

std::string at_line(std::string_view where, const toml::source_region& source) {
  // An option is one line, and a value that was copied has lost its place.
  if (where.starts_with("--") || source.begin.line == 0) return std::string(where);
  return std::string(where) + ":" + std::to_string(source.begin.line);
}

toml::table parse_toml(std::string_view text, std::string_view where) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    wrong(at_line(where, error.source()), "is not TOML here: ", error.description(),
          ". A line is `key = value` (strings in quotes) or `[section]`");
  }
}

std::vector<ConfigLayer> config_layers(const fs::path& path) {
  std::vector<ConfigLayer> layers;
  std::vector<fs::path> seen;
  for (std::optional<fs::path> next = path; next;) {
    const fs::path file = *next;
    const fs::path canonical = fs::weakly_canonical(file);
    if (std::ranges::find(seen, canonical) != seen.end()) {
      wrong(layers.back().where, "extends ", file.string(), ", which extends it in turn");
    }
    seen.push_back(canonical);
    layers.push_back(
        {file.string(), parse_toml(files::read_small_file(file, max_file), file.string())});
    next = take_extended(file, layers.back());
  }
  std::ranges::reverse(layers);
  return layers;
}

}  // namespace normball::trainer::config
