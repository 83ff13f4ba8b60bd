#include "trainer/config/config_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <sstream>

#include "normball/base/text.h"
#include "trainer/config/config_error.h"

namespace normball::trainer::config {
namespace {

std::string text_of(const toml::node& node) {
  if (const auto* number = node.as_floating_point()) return number_text(number->get());
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

// Gives values of one key their type, and refuses what does not fit.
class Reader {
 public:
  Reader(const Key& key, std::string where) : Reader(key, std::move(where), key.full_name()) {}
  // Of a part of it, with a name of its own in messages.
  Reader(const Key& key, std::string where, std::string name)
      : key_(key), where_(std::move(where)), name_(std::move(name)) {}

  void read(const toml::node& node, bool& out) const {
    const auto* value = node.as_boolean();
    if (value == nullptr) mismatch(node, "true or false");
    out = value->get();
  }
  void read(const toml::node& node, std::int64_t& out) const {
    const auto* value = node.as_integer();
    if (value == nullptr && is_too_long(node)) {
      wrong(where_, name_, " must be ",
            std::isfinite(key_.range.high) ? key_.range.text() : "an integer below 2^63", ", got ",
            node.as_string()->get());
    }
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
  void read(const toml::node& node, NumberOrAuto& out) const {
    if (const auto* text = node.as_string(); text != nullptr && text->get() == "auto") {
      out.automatic = true;
      return;
    }
    if (!node.is_number()) mismatch(node, "a number or \"auto\"");
    read(node, out.number);
  }
  void read(const toml::node& node, std::string& out) const {
    const auto* value = node.as_string();
    if (value == nullptr) mismatch(node, "a string in quotes");
    const std::string& text = value->get();
    if (!key_.choices.empty() && std::ranges::find(key_.choices, text) == key_.choices.end()) {
      wrong(where_, name_, ": ", unknown_name("value", text, key_.choices));
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
        part_of(*table, "norm").read(value, out.norm);
      } else if (name.str() == "radius") {
        part_of(*table, "radius").read(value, out.radius);
      } else {
        wrong(where_, name_, ": ", unknown_name("key", name.str(), known));
      }
    }
    if (out.pattern.empty() || !(out.norm || out.radius)) {
      wrong(where_, key_.full_name(), ": each needs a pattern, and a norm or a radius or both");
    }
  }

 private:
  // "norm.route: the radius of 'head'"
  Reader part_of(const toml::table& route, const char* part) const {
    const auto pattern = route["pattern"].value<std::string>();
    return {key_, where_, name_ + ": the " + part + " of '" + pattern.value_or("?") + "'"};
  }
  // An integer of more than 64 bits, which is no number in TOML and comes as a text.
  static bool is_too_long(const toml::node& node) {
    const auto* text = node.as_string();
    if (text == nullptr) return false;
    const std::string& digits = text->get();
    const char* const end = digits.data() + digits.size();
    std::int64_t ignored = 0;
    const auto [stop, error] = std::from_chars(digits.data(), end, ignored);
    return error == std::errc::result_out_of_range && stop == end;
  }
  void check_range(double value, const toml::node& node) const {
    if (!std::isfinite(value)) {
      wrong(where_, name_, " must be a finite number, got ", text_of(node));
    }
    if (!key_.range.contains(value)) {
      wrong(where_, name_, " must be ", key_.range.text(), ", got ", text_of(node));
    }
  }
  void check_text(const std::string& text) const {
    if (key_.check == nullptr) return;
    try {
      key_.check(text);
    } catch (const std::invalid_argument& error) {
      wrong(where_, name_, " = \"", text, "\": ", error.what());
    }
  }
  [[noreturn]] void mismatch(const toml::node& node, std::string_view expected) const {
    wrong(where_, name_, " must be ", expected, ", got ", text_of(node));
  }

  const Key& key_;
  std::string where_, name_;
};

}  // namespace

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
    wrong(where, "extends is for files that start a run; this one must be complete");
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

toml::table parse_value(const std::string& value, const Key& key, std::string_view where) {
  try {
    return toml::parse("value = " + value);
  } catch (const toml::parse_error&) {
    if (std::holds_alternative<At<std::string>>(key.place)) {
      wrong(where, key.full_name(), " begins with a quote but is not a TOML string; ",
            "leave the quotes out, or end it with the same one");
    }
    return toml::table{{"value", value}};
  }
}

}  // namespace normball::trainer::config
