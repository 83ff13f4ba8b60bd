#include "trainer/run/config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "normball/error.h"
#include "normball/text.h"
#include "trainer/run/config_keys.h"
#include "trainer/run/config_layers.h"
#include "trainer/run/config_method.h"
#include "trainer/run/config_use.h"
#include "trainer/run/file_system.h"
#include "trainer/run/presets.h"
#include "trainer/run/terminal.h"

namespace normball::run {
namespace {

constexpr std::uintmax_t max_file = 1 << 20;

// `where` is a file, with or without a line, or an option of the command line.
template <class... Parts>
[[noreturn]] void wrong(std::string_view where, const Parts&... parts) {
  const std::string text = normball::detail::message("config", where, ": ", parts...);
  if (where.starts_with("--")) throw SettingError(text);
  throw std::invalid_argument(text);
}

std::string text_of(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

// Gives values of one key their type, and refuses what does not fit.
class Reader {
 public:
  Reader(const Key& key, std::string where) : key_(key), where_(std::move(where)) {}

  void read(const toml::node& node, bool& out) const {
    const auto* value = node.as_boolean();
    if (value == nullptr) mismatch(node, "true or false");
    out = value->get();
  }
  void read(const toml::node& node, std::int64_t& out) const {
    const auto* value = node.as_integer();
    if (value == nullptr) mismatch(node, "an integer");
    check_range(static_cast<double>(value->get()), node);
    out = value->get();
  }
  void read(const toml::node& node, double& out) const {
    if (!node.is_number()) mismatch(node, "a number");
    const double value = *node.value<double>();
    check_range(value, node);
    out = value;
  }
  void read(const toml::node& node, std::string& out) const {
    const auto* value = node.as_string();
    if (value == nullptr) mismatch(node, "a text in quotes");
    const std::string& text = value->get();
    if (!key_.choices.empty() && std::ranges::find(key_.choices, text) == key_.choices.end()) {
      wrong(where_, key_.full_name(), ": ", unknown_name("value", text, key_.choices));
    }
    check_text(text);
    out = text;
  }
  template <class T>
  void read(const toml::node& node, std::optional<T>& out) const {
    T value{};
    read(node, value);
    out = std::move(value);
  }
  template <class T>
  void read(const toml::node& node, std::vector<T>& out) const {
    const auto* list = node.as_array();
    if (list == nullptr) mismatch(node, "a list in [ ]");
    std::vector<T> values;
    for (const auto& element : *list) read(element, values.emplace_back());
    out = std::move(values);
  }
  void read(const toml::node& node, Route& out) const {
    const auto* table = node.as_table();
    if (table == nullptr) mismatch(node, "a table { pattern, norm, radius }");
    constexpr std::array<std::string_view, 3> known = {"pattern", "norm", "radius"};
    for (const auto& [name, value] : *table) {
      if (name.str() == "pattern") {
        const auto* text = value.as_string();
        if (text == nullptr || text->get().empty())
          mismatch(value, "a pattern such as \"blocks.*\"");
        out.pattern = text->get();
      } else if (name.str() == "norm") {
        read(value, out.norm);
      } else if (name.str() == "radius") {
        read(value, out.radius);
      } else {
        wrong(where_, key_.full_name(), ": ", unknown_name("key", name.str(), known));
      }
    }
    if (out.pattern.empty() || !(out.norm || out.radius)) {
      wrong(where_, key_.full_name(), ": each needs a pattern, and a norm or a radius or both");
    }
  }

 private:
  void check_range(double value, const toml::node& node) const {
    if (!std::isfinite(value)) {
      wrong(where_, key_.full_name(), " must be a finite number, got ", text_of(node));
    }
    if (!key_.range.contains(value)) {
      wrong(where_, key_.full_name(), " must be ", key_.range.text(), ", got ", text_of(node));
    }
  }
  void check_text(const std::string& text) const {
    if (key_.check == nullptr) return;
    try {
      key_.check(text);
    } catch (const std::invalid_argument& error) {
      wrong(where_, key_.full_name(), " = \"", text, "\": ", error.what());
    }
  }
  [[noreturn]] void mismatch(const toml::node& node, std::string_view expected) const {
    wrong(where_, key_.full_name(), " must be ", expected, ", got ", text_of(node));
  }

  const Key& key_;
  std::string where_;
};

const Key& find_key(std::string_view section, std::string_view name, std::string_view where) {
  const auto keys = config_keys();
  const auto found = std::ranges::find_if(
      keys, [&](const Key& key) { return key.section == section && key.name == name; });
  if (found != keys.end()) return *found;
  const auto elsewhere = std::ranges::find(keys, name, &Key::name);
  if (elsewhere != keys.end()) {
    wrong(where, "unknown key '", section, ".", name, "'; did you mean '", elsewhere->full_name(),
          "'?");
  }
  std::vector<std::string_view> known;
  for (const Key& key : keys) {
    if (key.section == section) known.push_back(key.name);
  }
  wrong(where, "in [", section, "]: ", unknown_name("key", name, known));
}

void require_section(std::string_view name, std::string_view where) {
  if (name == "extends") {
    wrong(where, "extends is for files that a run starts from; this one must be complete");
  }
  std::vector<std::string_view> sections;
  for (const Key& key : config_keys()) {
    if (sections.empty() || sections.back() != key.section) sections.push_back(key.section);
  }
  if (std::ranges::find(sections, name) == sections.end()) {
    wrong(where, unknown_name("section", name, sections));
  }
}

void assign(Config& config, const Key& key, const toml::node& node, const std::string& where) {
  std::visit([&](auto place) { Reader(key, where).read(node, place(config)); }, key.place);
}

// A value as --set has it. What is no TOML is a text, which the key refuses by naming what it
// takes.
toml::table parse_value(const std::string& value, const Key& key, std::string_view where) {
  try {
    return toml::parse("value = " + value);
  } catch (const toml::parse_error&) {
    if (std::holds_alternative<At<std::string>>(key.place)) {
      wrong(where, key.full_name(), " begins with a quote and is no text of TOML; ",
            "leave the quotes out, or end it with the same one");
    }
    return toml::table{{"value", value}};
  }
}

bool schedule_needs_steps(const ScheduleConfig& schedule) {
  return schedule.kind != "constant" || schedule.warmup > 0;
}

bool decides_resume(const Key& key, const Config& config) {
  if (key.on_resume == OnResume::Free) return false;
  const bool length = key.section == "run" && (key.name == "steps" || key.name == "epochs");
  return !length || schedule_needs_steps(config.schedule);
}

void validate_model(const Config& config, std::string_view where) {
  const auto& model = config.model;
  const bool text = config.data.kind == "shards" || config.data.kind == "text";
  if ((model.kind == "gpt") != text) {
    wrong(where, "model.kind = \"", model.kind, "\" cannot learn from data.kind = \"",
          config.data.kind, "\"; gpt takes shards or text, cnn and mlp take images");
  }
  if (model.kind == "gpt" && (model.width % model.heads != 0 || model.head_dim() % 2 != 0)) {
    wrong(where, "model.width = ", model.width,
          " must be an even multiple of model.heads = ", model.heads,
          " (rotary embeddings turn pairs)");
  }
  if (config.data.kind == "text" && config.data.bpe.empty() && model.vocab < 256) {
    wrong(where, "model.vocab = ", model.vocab, " must be 256 or more for the bytes of a text");
  }
  if (text && config.data.path.empty()) {
    wrong(where, "data.kind = \"", config.data.kind, "\" needs data.path");
  }
  if (model.kind == "mlp" && model.hidden.size() > 1000) {
    wrong(where, "model.hidden has ", model.hidden.size(), " layers; at most 1000 are allowed");
  }
}

void validate_optimizer(const Config& config, std::string_view where) {
  const auto& options = config.optimizer;
  if (options.betas.size() != 2) {
    wrong(where, "optimizer.betas must have two numbers, got ", options.betas.size());
  }
  if (options.method == "muon" && config.model.kind == "mlp" && config.model.hidden.size() < 2) {
    wrong(where,
          "optimizer.method = \"muon\" steps the matrices between the first and the last; an ",
          "mlp has one only where model.hidden has two layers or more");
  }
  const bool radii = std::ranges::any_of(
      config.norm.route, [](const Route& route) { return route.radius.has_value(); });
  if (options.method == "s3cg" && radii) {
    wrong(where, "norm.route gives a radius, but every radius of optimizer.method = \"s3cg\" is ",
          "optimizer.beta; leave it out");
  }
  if (!is_core_method(options.method)) return;
  try {  // the core knows what its methods need; how long the run is does not matter for that
    core_method(config, 1000);
  } catch (const std::invalid_argument& error) {
    wrong(where, "[optimizer]: ", error.what());
  }
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

// Where keys do not fit together: the settings, if the file is right without them.
std::string blamed(Config file, const std::filesystem::path& path,
                   std::span<const std::string> settings) {
  if (settings.empty()) return path.string();
  try {
    reset_unused(file);
    validate(file, path.string());
  } catch (const std::invalid_argument&) {
    return path.string();
  }
  std::string text;
  for (const auto& setting : settings) text += (text.empty() ? "--set " : " --set ") + setting;
  return text;
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

}  // namespace

std::vector<GivenKey> apply_toml(Config& config, std::string_view text, std::string_view where) {
  return apply_sections(config, parse_toml(text, where), where);
}

GivenKey apply_setting(Config& config, std::string_view setting, std::string_view option) {
  const std::string where = option.empty() ? "--set " + std::string(setting) : std::string(option);
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

void validate(const Config& config, std::string_view where) {
  if ((config.run.steps > 0) == (config.run.epochs > 0)) {
    wrong(where, "set one of run.steps (now ", config.run.steps, ") and run.epochs (now ",
          config.run.epochs, "), and leave the other 0");
  }
  if (config.train.batch % config.train.micro() != 0) {
    wrong(where, "train.batch = ", config.train.batch,
          " must be a multiple of train.micro_batch = ", config.train.micro_batch);
  }
  const auto& schedule = config.schedule;
  if (schedule.kind == "warmdown" && schedule.warmup + schedule.decay > 1) {
    wrong(where, "schedule.warmup + schedule.decay must not exceed 1, got ", schedule.warmup, " + ",
          schedule.decay);
  }
  if (schedule.kind == "cosine" && schedule.end > config.optimizer.lr) {
    wrong(where, "schedule.end = ", schedule.end,
          " must not exceed optimizer.lr = ", config.optimizer.lr);
  }
  if (config.run.resume.empty()) {
    wrong(where, "run.resume must be never, auto or a checkpoint's directory, not empty");
  }
  validate_model(config, where);
  validate_optimizer(config, where);
}

void validate_name(std::string_view name, std::string_view where) {
  constexpr size_t longest = 200;  // file systems allow 255 bytes
  const bool control = std::ranges::any_of(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (name.empty() || name.size() > longest || name.starts_with('.') || name.starts_with('-') ||
      name.find('/') != std::string_view::npos || control) {
    wrong(where, "run.name must be a plain name: 1 to ", longest,
          " bytes, not beginning with '.' or '-', without '/' and control characters, got \"",
          printable(name), "\"; run.dir takes the directory");
  }
}

Config load_config(std::string_view name_or_file, std::span<const std::string> settings,
                   std::vector<std::string>* warnings) {
  const auto path = find_config(name_or_file);
  Config config;
  const auto in_file = apply_layers(config, config_layers(path));
  const Config file = config;
  std::vector<GivenKey> set;
  for (const auto& setting : settings) set.push_back(apply_setting(config, setting));
  for (const auto& given : set) require_used(given, config);
  const auto idle = idle_keys(in_file, file, config);
  if (warnings != nullptr) *warnings = idle;
  reset_unused(config);
  const bool own_name = !config.run.name.empty();
  if (!own_name) config.run.name = path.stem().string();
  const std::string where = blamed(file, path, settings);
  validate(config, where);
  if (own_name) validate_name(config.run.name, where);
  if (config.run.dir.empty()) wrong(where, "run.dir must not be empty; \".\" is this directory");
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
              ? "has no config.toml; put there what `normball config --show CONFIG` says of the "
                "configuration it was trained with"
              : "is not a run directory (it has no config.toml)");
  }
  Config config;
  apply_toml(config, read_small_file(path, max_file), path.string());
  reset_unused(config);
  const auto allowed = keys_after_training(command);
  for (const auto& setting : settings) {
    const GivenKey given = apply_setting(config, setting);
    if (!list_has(allowed, given.key->full_name())) {
      wrong(given.where, "the model is trained; `normball ", command, "` takes ", allowed);
    }
    require_used(given, config);
  }
  validate(config, path.string());
  return config;
}

std::vector<std::string> resume_conflicts(const Config& before, const Config& now) {
  std::vector<std::string> conflicts;
  for (const Key& key : config_keys()) {
    const auto a = value_text(key, before), b = value_text(key, now);
    if (a == b || !(decides_resume(key, before) || decides_resume(key, now))) continue;
    conflicts.push_back(key.full_name() + ": " + (a.empty() ? "not set" : a) + " before, " +
                        (b.empty() ? "not set" : b) + " now");
  }
  return conflicts;
}

}  // namespace normball::run
