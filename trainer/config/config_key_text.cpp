// Keys as text: their values in TOML, what they allow, and the page about them.
#include <cmath>
#include <sstream>

#include "normball/base/text.h"
#include "trainer/config/config_keys.h"
#include "trainer/config/config_use.h"

namespace normball::trainer::config {
namespace {

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (code < 0x20 || code == 0x7f) {
      constexpr auto digits = "0123456789ABCDEF";
      out += std::string("\\u00") + digits[code >> 4] + digits[code & 0xf];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string toml(bool value) { return value ? "true" : "false"; }
std::string toml(std::int64_t value) { return std::to_string(value); }
std::string toml(double value) {
  const std::string text = number_text(value);
  const bool looks_like_integer = text.find_first_not_of("-0123456789") == std::string::npos;
  return looks_like_integer ? text + ".0" : text;
}
std::string toml(const NumberOrAuto& value) {
  return value.automatic ? toml_string("auto") : toml(value.number);
}
std::string toml(const std::string& value) { return toml_string(value); }
template <class T>
std::string toml(const std::optional<T>& value) {
  return value ? toml(*value) : "";
}
std::string toml(const Route& route) {
  std::string text = "{ pattern = " + toml_string(route.pattern);
  if (route.norm) text += ", norm = " + toml_string(*route.norm);
  if (route.radius) text += ", radius = " + toml(*route.radius);
  return text + " }";
}
template <class T>
std::string toml(const std::vector<T>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text.append(i > 0 ? ", " : "").append(toml(values[i]));
  return text.append("]");
}

}  // namespace

bool Range::contains(double value) const {
  return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
}

std::string Range::text() const {
  const bool below = std::isfinite(low), above = std::isfinite(high);
  std::string text;
  if (below && above) {
    text.append("in ").append(low_open ? "(" : "[").append(number_text(low)).append(", ");
    text.append(number_text(high)).append(high_open ? ")" : "]");
  } else if (below) {
    text.append(low_open ? "> " : ">= ").append(number_text(low));
  }
  return text;
}

std::string Key::type() const {
  constexpr std::string_view names[] = {
      "boolean", "integer",          "number",          "number", "number or \"auto\"",
      "text",    "list of integers", "list of numbers", "list"};
  return std::string(names[place.index()]);
}

std::string Key::allowed() const { return choices.empty() ? range.text() : list_of(choices); }

std::string value_text(const Key& key, const Config& config) {
  // The place is only read.
  return std::visit([&](auto place) { return toml(place(const_cast<Config&>(config))); },
                    key.place);
}

std::string keys_as_markdown() {
  std::ostringstream out;
  out << "# Configuration keys\n\n"
         "Written by `normball config --keys --markdown` from the table that reads them; "
         "[runs.md](runs.md) explains their use.\nA key marked † must stay the same when a run is "
         "resumed. \"Used by\" names models, data, methods and conditions; if empty,\nthe key "
         "always applies. One that would have no effect is refused. Numbers are finite.\n";
  const Config defaults;
  std::string_view section;
  for (const Key& key : config_keys()) {
    if (key.section != section) {
      section = key.section;
      out << "\n## [" << section
          << "]\n\n| key | type | default | allowed | used by | |\n|---|---|---|---|---|---|\n";
    }
    const std::string value = value_text(key, defaults);
    out << "| `" << key.name << '`' << (key.on_resume == OnResume::Same ? "†" : "") << " | "
        << key.type() << " | " << (value.empty() ? "not set" : "`" + value + "`") << " | "
        << key.allowed() << " | " << use_of(key).text() << " | " << key.help << " |\n";
  }
  return out.str();
}

}  // namespace normball::trainer::config
