#include "trainer/sweep/axis.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "normball/base/text.h"
#include "normball/random.h"
#include "trainer/config/config_error.h"
#include "trainer/config/config_layers.h"

namespace normball::trainer::sweep {
namespace {

using config::TableReader;
using config::wrong;

// "optimizer.lr" is called lr.
std::string short_name(std::string_view key) {
  return std::string(key.substr(key.find('.') == std::string_view::npos ? 0 : key.find('.') + 1));
}

// As --set takes it: a text without quotes, a list with its brackets.
std::string setting_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto number = node.value_exact<double>()) return number_text(*number);
  if (const auto* array = node.as_array()) {
    std::string list;
    for (const auto& element : *array) {
      list.append(list.empty() ? "[" : ", ");
      const char* quote = element.is_string() ? "\"" : "";
      list.append(quote).append(setting_text(element)).append(quote);
    }
    return list.empty() ? "[]" : list.append("]");
  }
  std::ostringstream text;
  text << toml::node_view<const toml::node>(node);
  return text.str();
}

// Up to the next comma that is in no brackets and no quotes.
std::string_view first_value(std::string_view text) {
  int depth = 0;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '(') {
      ++depth;
    } else if (c == ']' || c == ')') {
      --depth;
    } else if (c == ',' && depth <= 0) {
      return text.substr(0, i);
    }
  }
  return text;
}

AxisValue labelled_value(TableReader reader) {
  const auto label = reader.text("label");
  AxisValue value{.label = label.value_or(""), .settings = reader.settings("set")};
  reader.require_all_taken();
  if (value.label.empty() || value.settings.empty()) {
    wrong(reader.where(),
          "a value in braces needs label = \"...\" and set = [\"section.key=value\", ...]");
  }
  return value;
}

AxisValue single_value(const std::string& key, const toml::node& node) {
  const std::string text = setting_text(node);
  return {.label = text, .settings = {key + "=" + text}, .number = node.value<double>()};
}

AxisValue zipped_value(const std::vector<std::string>& keys, const toml::node& node,
                       const std::string& where) {
  const auto* array = node.as_array();
  if (array == nullptr || array->size() != keys.size()) {
    wrong(where, "each value must be a list of ", keys.size(), ", one for each of the keys");
  }
  AxisValue value;
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string text = setting_text(*array->get(i));
    value.label += (i > 0 ? "," : "") + text;
    value.settings.push_back(keys[i] + "=" + text);
  }
  return value;
}

// Numbers between the ends: evenly, or at random. Three digits are enough to tell neighbours apart
// and to type; the ends are exact.
std::vector<double> spread(TableReader::Ends ends, bool logarithmic, std::int64_t points,
                           std::optional<std::int64_t> draw_seed) {
  const auto forward = [&](double x) { return logarithmic ? std::log(x) : x; };
  const auto back = [&](double x) { return logarithmic ? std::exp(x) : x; };
  Random random(static_cast<std::uint64_t>(draw_seed.value_or(0)));
  std::vector<double> result;
  for (std::int64_t i = 0; i < points; ++i) {
    const double share =
        draw_seed ? random.uniform() : static_cast<double>(i) / static_cast<double>(points - 1);
    const double value = back(forward(ends.low) + share * (forward(ends.high) - forward(ends.low)));
    const bool end = !draw_seed && (i == 0 || i == points - 1);
    result.push_back(end ? (i == 0 ? ends.low : ends.high) : std::stod(printed("%.3g", value)));
  }
  std::ranges::sort(result);
  const auto repeated = std::ranges::unique(result);
  result.erase(repeated.begin(), repeated.end());
  return result;
}

std::vector<AxisValue> numbers_of(TableReader& reader, const std::string& key) {
  const auto log = reader.ends("log", true), linear = reader.ends("linear", false);
  const auto points = reader.count("points", 2), draws = reader.count("draws", 1);
  const auto seed = reader.count("seed", 0);
  if (log && linear) wrong(reader.where(), "an axis has log or linear, not both");
  if (!log && !linear) {
    if (points || draws)
      wrong(reader.where(), "points and draws need log = [a, b] or linear = [a, b]");
    return {};
  }
  if (points.has_value() == draws.has_value()) {
    wrong(reader.where(),
          "log and linear need either points = N, evenly spaced, or draws = N, at random");
  }
  if (seed && !draws) wrong(reader.where(), "seed is for draws");
  std::vector<AxisValue> values;
  for (const double number : spread(log ? *log : *linear, log.has_value(), draws ? *draws : *points,
                                    draws ? std::optional(seed.value_or(0)) : std::nullopt)) {
    const std::string text = number_text(number);
    values.push_back({.label = text, .settings = {key + "=" + text}, .number = number});
  }
  return values;
}

bool is_logarithmic(const std::vector<AxisValue>& values) {
  double low = INFINITY, high = 0;
  for (const auto& value : values) {
    if (!value.number) continue;
    low = std::min(low, *value.number);
    high = std::max(high, *value.number);
  }
  return low > 0 && high > 4 * low;
}

// What was read as values of the key are factors of it.
void make_factors(Axis& axis, const std::string& key, const std::string& where) {
  axis.factor_of = key;
  for (auto& value : axis.values) {
    if (!value.number || !(*value.number > 0)) {
      wrong(where, "factors of ", key, " must be positive numbers, got ", value.label);
    }
    value.settings.clear();
  }
}

}  // namespace

Axis read_axis(TableReader& reader) {
  const std::string& where = reader.where();
  const auto key = reader.text("key");
  const auto keys = reader.texts("keys");
  const auto factor_of = reader.text("factor_of");
  if (key.has_value() + !keys.empty() + factor_of.has_value() != 1) {
    wrong(
        where,
        "an axis needs key = \"section.key\", or keys = [\"...\", \"...\"] to change together, or "
        "factor_of = \"section.key\" to multiply it");
  }
  Axis axis;
  std::string names = key ? short_name(*key) : factor_of ? short_name(*factor_of) + " factor" : "";
  for (const auto& zipped : keys) names.append(names.empty() ? "" : ",").append(short_name(zipped));
  axis.name = reader.text("name").value_or(names);
  const std::string one = key ? *key : factor_of.value_or("");
  if (keys.empty()) axis.values = numbers_of(reader, one);
  if (const auto* node = reader.take("values")) {
    const auto* array = node->as_array();
    if (array == nullptr) wrong(reader.place(*node), "values must be a list");
    std::vector<AxisValue> values;
    for (const auto& element : *array) {
      const std::string place = reader.place(element);
      if (const auto* inner = element.as_table()) {
        values.push_back(labelled_value(reader.inner(*inner)));
      } else {
        values.push_back(keys.empty() ? single_value(one, element)
                                      : zipped_value(keys, element, place));
      }
    }
    axis.values.insert(axis.values.begin(), values.begin(), values.end());
  }
  reader.require_all_taken();
  if (axis.values.empty()) {
    wrong(where, "an axis needs values = [...], or log or linear with points or draws");
  }
  if (factor_of) make_factors(axis, *factor_of, where);
  axis.logarithmic = is_logarithmic(axis.values);
  return axis;
}

Axis parse_axis(std::string_view text) {
  const std::string where = "--axis " + std::string(text);
  const auto equals = text.find('=');
  const std::string_view head = text.substr(0, equals);
  if (equals == std::string_view::npos) {
    wrong(where,
          "an axis is section.key=value,value,... or the text of an [[axis]] of a sweep file");
  }
  // A key has a dot and no blank: the short form.
  if (head.find('.') != std::string_view::npos && head.find(' ') == std::string_view::npos) {
    Axis axis{.name = short_name(head), .values = {}};
    std::string_view rest = text.substr(equals + 1);
    while (true) {
      const std::string value(first_value(rest));
      if (value.empty()) wrong(where, "a value is empty; separate them by one comma each");
      std::optional<double> number;
      try {
        number = parse_number("axis", "value", value);
      } catch (const std::invalid_argument&) {
        number.reset();  // a text
      }
      axis.values.push_back(
          {.label = value, .settings = {std::string(head) + "=" + value}, .number = number});
      if (value.size() == rest.size()) break;
      rest.remove_prefix(value.size() + 1);
    }
    axis.logarithmic = is_logarithmic(axis.values);
    return axis;
  }
  const auto table = config::parse_toml("axis = {" + std::string(text) + "}", where);
  TableReader reader(*table["axis"].as_table(), where, where);
  return read_axis(reader);
}

}  // namespace normball::trainer::sweep
