#include "trainer/config/config.h"

#include <algorithm>
#include <map>

#include "trainer/config/config_error.h"
#include "trainer/config/config_keys.h"
#include "trainer/config/config_layers.h"
#include "trainer/config/config_use.h"
#include "trainer/config/config_value.h"
#include "trainer/config/presets.h"
#include "trainer/files/file_system.h"
#include "trainer/runtime/terminal.h"

namespace normball::trainer::config {
namespace {

constexpr std::uintmax_t max_file = 1 << 20;

bool schedule_needs_steps(const ScheduleConfig& schedule) {
  return (schedule.kind != "constant" && schedule.kind != "power") || schedule.warmup > 0;
}

bool decides_resume(const Key& key, const Config& config) {
  if (key.on_resume == OnResume::Free) return false;
  const bool length = key.section == "run" && (key.name == "steps" || key.name == "epochs");
  return !length || schedule_needs_steps(config.schedule);
}

void require_used(const GivenKey& given, const Config& config) {
  const std::string why = why_unused(*given.key, config);
  if (why.empty()) return;
  wrong(given.where, given.key->full_name(), " has no effect: ", why,
        "; used by: ", use_of(*given.key).text(), ". Leave it out");
}

// Warnings about keys of a file that the settings after it left without effect. What had none
// before is an error, unless it only says the default or comes from a file that several extend.
std::vector<std::string> idle_keys(const std::vector<GivenKey>& in_file, const Config& file,
                                   const Config& config) {
  const Config defaults;
  std::map<std::string, std::string> by_reason;
  for (const auto& given : in_file) {
    const Key& key = *given.key;
    const std::string why = why_unused(key, config);
    if (why.empty() || value_text(key, file) == value_text(key, defaults)) continue;
    if (!why_unused(key, file).empty()) {
      if (given.inherited) continue;
      require_used(given, file);
    }
    auto& names = by_reason[why];
    names += (names.empty() ? "" : ", ") + key.full_name();
  }
  std::vector<std::string> warnings;
  for (const auto& [why, names] : by_reason) {
    warnings.push_back("no effect any more: " + names + " (" + why + ")");
  }
  return warnings;
}

// Where keys do not fit together: the settings, if the file is right without them. Of these, the
// ones of which the error speaks, by their name or by their section's.
std::string blamed(Config file, const std::filesystem::path& path, std::span<const GivenKey> set,
                   std::string_view error) {
  if (set.empty()) return path.string();
  try {
    reset_unused(file);
    validate(file, path.string());
  } catch (const std::invalid_argument&) {
    return path.string();
  }
  const auto has_word = [&](const std::string& word) {  // "eval.batch" is not in "eval.batches"
    constexpr std::string_view inside = "abcdefghijklmnopqrstuvwxyz0123456789_";
    for (size_t at = 0; (at = error.find(word, at)) != std::string_view::npos; ++at) {
      const size_t end = at + word.size();
      if (end == error.size() || inside.find(error[end]) == std::string_view::npos) return true;
    }
    return false;
  };
  const auto speaks_of = [&](const GivenKey& given) {
    std::string section = "[";
    section.append(given.key->section).append("]");
    return has_word(given.key->full_name()) || has_word(section);
  };
  const bool some = std::ranges::any_of(set, speaks_of);
  std::string text;
  for (const auto& given : set) {
    if (some && !speaks_of(given)) continue;
    if (!text.empty()) text += ' ';
    text += given.where;
  }
  return text;
}

void require_valid(const Config& config, bool own_name, std::string_view where) {
  validate(config, where);
  if (own_name) validate_name(config.run.name, where);
  if (config.run.dir.empty()) wrong(where, "run.dir must not be empty; \".\" is this directory");
}

std::vector<GivenKey> apply_sections(Config& config, const toml::table& document,
                                     std::string_view where) {
  std::vector<GivenKey> given;
  for (const auto& [section, contents] : document) {
    const std::string line = at_line(where, section.source());
    require_section(section.str(), line);
    const auto* table = contents.as_table();
    if (table == nullptr)
      wrong(line, "'", section.str(), "' must be a section [", section.str(), "]");
    for (const auto& [name, value] : *table) {
      const std::string here = at_line(where, name.source());
      const Key& key = find_key(section.str(), name.str(), here);
      assign(config, key, value, here);
      given.push_back({&key, here});
    }
  }
  return given;
}

// Of a file and those it extends; a key that several of them give is that of the last.
std::vector<GivenKey> apply_layers(Config& config, const std::vector<ConfigLayer>& layers) {
  std::vector<GivenKey> all;
  for (const auto& layer : layers) {
    for (auto& given : apply_sections(config, layer.sections, layer.where)) {
      std::erase_if(all, [&](const GivenKey& earlier) { return earlier.key == given.key; });
      given.inherited = &layer != &layers.back();
      all.push_back(std::move(given));
    }
  }
  return all;
}

// One key given twice is a mistake: only one of the two could count.
std::vector<GivenKey> apply_settings(Config& config, std::span<const std::string> settings) {
  std::vector<GivenKey> all;
  for (const auto& setting : settings) {
    const GivenKey given = apply_setting(config, setting);
    const auto earlier = std::ranges::find(all, given.key, &GivenKey::key);
    if (earlier != all.end()) {
      wrong(given.where, given.key->full_name(), " is given twice, first as ", earlier->where,
            ". Leave one out");
    }
    all.push_back(given);
  }
  return all;
}

}  // namespace

std::vector<GivenKey> apply_toml(Config& config, std::string_view text, std::string_view where) {
  return apply_sections(config, parse_toml(text, where), where);
}

GivenKey apply_setting(Config& config, std::string_view setting, std::string_view option) {
  const std::string where =
      option.empty() ? "--set " + runtime::one_line(setting) : runtime::one_line(option);
  const auto equals = setting.find('=');
  const auto path = setting.substr(0, equals);
  const auto dot = path.find('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos) {
    wrong(where, "expected section.key=value");
  }
  const auto section = path.substr(0, dot);
  const std::string value(setting.substr(equals + 1));
  require_section(section, where);
  const Key& key = find_key(section, path.substr(dot + 1), where);
  const bool bare = std::holds_alternative<At<std::string>>(key.place) && !value.starts_with('"') &&
                    !value.starts_with('\'');
  if (bare) {
    assign(config, key, toml::value<std::string>(value), where);
    return {&key, where};
  }
  if (value.find('\n') != std::string::npos) wrong(where, "the value must be on one line");
  assign(config, key, *parse_value(value, key, where).get("value"), where);
  return {&key, where};
}

Config load_config(std::string_view name_or_file, std::span<const std::string> settings,
                   std::vector<std::string>* warnings) {
  const auto path = find_config(name_or_file);
  Config config;
  const auto in_file = apply_layers(config, config_layers(path));
  const Config file = config;
  const auto set = apply_settings(config, settings);
  for (const auto& given : set) require_used(given, config);
  const auto idle = idle_keys(in_file, file, config);
  if (warnings != nullptr) *warnings = idle;
  reset_unused(config);
  const bool own_name = !config.run.name.empty();
  if (!own_name) config.run.name = path.stem().string();
  try {
    require_valid(config, own_name, "");
  } catch (const std::invalid_argument& error) {
    require_valid(config, own_name, blamed(file, path, set, error.what()));
  }
  return config;
}

std::string to_toml(const Config& config) {
  std::string text;
  std::string_view section;
  for (const Key& key : config_keys()) {
    const std::string value = value_text(key, config);
    if (value.empty() || !why_unused(key, config).empty()) continue;
    if (key.section != section) {
      section = key.section;
      text += (text.empty() ? "[" : "\n[") + std::string(section) + "]\n";
    }
    text += std::string(key.name) + " = " + value + "\n";
  }
  return text;
}

Config stored_config(const std::filesystem::path& run_directory,
                     std::span<const std::string> settings, std::string_view command) {
  const auto path = run_directory / "config.toml";
  if (!std::filesystem::exists(path)) {
    wrong(run_directory.string(),
          std::filesystem::is_directory(run_directory / "checkpoints")
              ? "has no config.toml; put there what `normball config --show CONFIG` prints for the "
                "configuration it was trained with"
              : "is not a run directory (it has no config.toml)");
  }
  Config config;
  apply_toml(config, files::read_small_file(path, max_file), path.string());
  reset_unused(config);
  const auto allowed = keys_after_training(command);
  for (const auto& given : apply_settings(config, settings)) {
    if (!list_has(allowed, given.key->full_name())) {
      wrong(given.where, "the model is trained; `normball ", command, "` takes ", allowed);
    }
    require_used(given, config);
  }
  validate(config, path.string());
  return config;
}

namespace {

template <class Decides>
std::vector<std::string> conflicts_in(const Config& before, const Config& now, Decides decides) {
  std::vector<std::string> conflicts;
  for (const Key& key : config_keys()) {
    const auto a = value_text(key, before), b = value_text(key, now);
    if (a == b || !decides(key)) continue;
    // What only one of them uses follows from another key, which is listed.
    if (!why_unused(key, before).empty() || !why_unused(key, now).empty()) continue;
    conflicts.push_back(key.full_name() + ": " + (a.empty() ? "not set" : a) + " before, " +
                        (b.empty() ? "not set" : b) + " now");
  }
  return conflicts;
}

// A run directory holds absolute paths.
Config with_absolute_paths(Config config) {
  for (auto* path : {&config.data.path, &config.data.validation, &config.data.bpe}) {
    if (!path->empty()) *path = std::filesystem::absolute(*path).lexically_normal().string();
  }
  return config;
}

}  // namespace

std::vector<std::string> resume_conflicts(const Config& before, const Config& now) {
  return conflicts_in(before, now, [&](const Key& key) {
    return decides_resume(key, before) || decides_resume(key, now);
  });
}

std::vector<std::string> result_conflicts(const Config& before, const Config& now) {
  constexpr std::string_view free_here =  // a run that is made longer is trained on
      "run.name, run.dir, run.threads, run.steps, run.epochs, run.checkpoint_every, "
      "run.keep_last, run.keep_best, run.resume";
  return conflicts_in(with_absolute_paths(before), with_absolute_paths(now), [&](const Key& key) {
    if (decides_resume(key, before) || decides_resume(key, now)) return true;
    return key.section != "sample" && !list_has(free_here, key.full_name());
  });
}

}  // namespace normball::trainer::config
