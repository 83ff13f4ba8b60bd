#include "trainer/sweep/plan.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "normball/base/text.h"
#include "normball/random.h"
#include "trainer/config/config_error.h"
#include "trainer/config/config_layers.h"
#include "trainer/config/presets.h"
#include "trainer/files/file_system.h"

namespace normball::trainer::sweep {
namespace fs = std::filesystem;
namespace {

using config::at_line;
using config::wrong;

constexpr std::uintmax_t max_file = 1 << 20;
constexpr std::int64_t max_points = 10'000;

// Reads a table key by key; what is left over at the end is unknown.
class Reader {
 public:
  Reader(toml::table table, std::string where, std::string file)
      : table_(std::move(table)), where_(std::move(where)), file_(std::move(file)) {}

  const std::string& where() const { return where_; }

  // The key's node, or nullptr; it counts as read.
  const toml::node* take(std::string_view key) {
    known_.push_back(key);
    const auto found = table_.find(key);
    if (found == table_.end()) return nullptr;
    taken_.emplace(key);
    return &found->second;
  }

  std::string place(const toml::node& node) const { return at_line(file_, node.source()); }

  std::optional<std::string> text(std::string_view key) {
    const auto* node = take(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_string()) wrong(place(*node), key, " must be a text in quotes");
    return node->as_string()->get();
  }

  std::optional<std::int64_t> count(std::string_view key, std::int64_t least) {
    const auto* node = take(key);
    if (node == nullptr) return std::nullopt;
    const auto value = node->value_exact<std::int64_t>();
    if (!value || *value < least || *value > max_points) {
      wrong(place(*node), key, " must be a whole number from ", least, " to ", max_points);
    }
    return *value;
  }

  std::vector<std::string> texts(std::string_view key) {
    const auto* node = take(key);
    if (node == nullptr) return {};
    const auto* array = node->as_array();
    std::vector<std::string> result;
    if (array != nullptr) {
      for (const auto& element : *array) {
        if (const auto* text = element.as_string()) result.push_back(text->get());
      }
    }
    if (array == nullptr || result.size() != array->size()) {
      wrong(place(*node), key, " must be a list of texts in quotes");
    }
    return result;
  }

  void require_all_taken() const {
    for (const auto& [key, node] : table_) {
      if (taken_.contains(std::string(key.str()))) continue;
      wrong(at_line(file_, key.source()), unknown_name("key", key.str(), known_));
    }
  }

 private:
  toml::table table_;
  std::string where_, file_;
  std::vector<std::string_view> known_;
  std::set<std::string, std::less<>> taken_;
};

// "optimizer.lr" is called lr.
std::string short_name(std::string_view key) {
  return std::string(key.substr(key.find('.') == std::string_view::npos ? 0 : key.find('.') + 1));
}

// As --set takes it: a text without quotes, a list with its brackets.
std::string setting_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto number = node.value_exact<double>()) return number_text(*number);
  std::ostringstream text;
  text << toml::node_view<const toml::node>(node);
  return text.str();
}

void require_settings(const std::vector<std::string>& settings, const std::string& where) {
  for (const auto& setting : settings) {
    if (setting.find('=') == std::string::npos) {
      wrong(where, "'", setting, "' is not a setting; one is \"section.key=value\"");
    }
  }
}

AxisValue labelled_value(const toml::table& table, const std::string& where,
                         const std::string& file) {
  Reader reader(table, where, file);
  const auto label = reader.text("label");
  AxisValue value{.label = label.value_or(""), .settings = reader.texts("set")};
  reader.require_all_taken();
  if (value.label.empty() || value.settings.empty()) {
    wrong(where, "a value in braces needs label = \"...\" and set = [\"section.key=value\", ...]");
  }
  require_settings(value.settings, where);
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

struct Ends {
  double low = 0, high = 0;
};

std::optional<Ends> take_ends(Reader& reader, std::string_view key) {
  const auto* node = reader.take(key);
  if (node == nullptr) return std::nullopt;
  const auto* array = node->as_array();
  if (array != nullptr && array->size() == 2) {
    const auto low = array->get(0)->value<double>(), high = array->get(1)->value<double>();
    if (low && high && *low < *high && (key != "log" || *low > 0)) return Ends{*low, *high};
  }
  wrong(reader.place(*node), key, " must be two numbers, ", key == "log" ? "both positive, " : "",
        "the smaller first");
}

// Numbers between the ends: evenly, or at random. Three digits are enough to tell neighbours apart
// and to type; the ends are exact.
std::vector<double> spread(Ends ends, bool logarithmic, std::int64_t points,
                           std::optional<std::int64_t> draw_seed) {
  const auto forward = [&](double x) { return logarithmic ? std::log(x) : x; };
  const auto back = [&](double x) { return logarithmic ? std::exp(x) : x; };
  Random random(static_cast<std::uint64_t>(draw_seed.value_or(0)));
  std::vector<double> result;
  for (std::int64_t i = 0; i < points; ++i) {
    const double share =
        draw_seed ? random.uniform() : static_cast<double>(i) / static_cast<double>(points - 1);
    const double value = back(forward(ends.low) + share * (forward(ends.high) - forward(ends.low)));
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    const bool end = !draw_seed && (i == 0 || i == points - 1);
    result.push_back(end ? (i == 0 ? ends.low : ends.high) : std::stod(text));
  }
  std::ranges::sort(result);
  const auto repeated = std::ranges::unique(result);
  result.erase(repeated.begin(), repeated.end());
  return result;
}

std::vector<AxisValue> numbers_of(Reader& reader, const std::string& key) {
  const auto log = take_ends(reader, "log"), linear = take_ends(reader, "linear");
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

Axis axis_of(const toml::table& table, const std::string& where, const std::string& file) {
  Reader reader(table, where, file);
  const auto key = reader.text("key");
  const auto keys = reader.texts("keys");
  if (key.has_value() == !keys.empty()) {
    wrong(where,
          "an axis needs key = \"section.key\", or keys = [\"...\", \"...\"] to change together");
  }
  Axis axis;
  std::string names = key ? short_name(*key) : "";
  for (const auto& zipped : keys) names.append(names.empty() ? "" : ",").append(short_name(zipped));
  axis.name = reader.text("name").value_or(names);
  if (key) axis.values = numbers_of(reader, *key);
  if (const auto* node = reader.take("values")) {
    const auto* array = node->as_array();
    if (array == nullptr) wrong(reader.place(*node), "values must be a list");
    std::vector<AxisValue> values;
    for (const auto& element : *array) {
      const std::string place = reader.place(element);
      if (const auto* inner = element.as_table()) {
        values.push_back(labelled_value(*inner, place, file));
      } else {
        values.push_back(key ? single_value(*key, element) : zipped_value(keys, element, place));
      }
    }
    axis.values.insert(axis.values.begin(), values.begin(), values.end());
  }
  reader.require_all_taken();
  if (axis.values.empty()) {
    wrong(where, "an axis needs values = [...], or log or linear with points or draws");
  }
  axis.logarithmic = is_logarithmic(axis.values);
  return axis;
}

std::vector<std::int64_t> seeds_of(Reader& reader) {
  const auto* node = reader.take("seeds");
  if (node == nullptr) return {0};
  std::vector<std::int64_t> seeds;
  if (const auto* array = node->as_array()) {
    for (const auto& element : *array) {
      const auto seed = element.value_exact<std::int64_t>();
      if (seed && *seed >= 0) seeds.push_back(*seed);
    }
    if (seeds.size() == array->size() && !seeds.empty()) return seeds;
  } else if (const auto count = node->value_exact<std::int64_t>();
             count && *count >= 1 && *count <= max_points) {
    for (std::int64_t seed = 0; seed < *count; ++seed) seeds.push_back(seed);
    return seeds;
  }
  wrong(reader.place(*node),
        "seeds must be a number of seeds, or a list of them (whole numbers from 0)");
}

// What a directory may be called without trouble in a shell.
std::string file_name(std::string_view label) {
  std::string name;
  for (const char c : label) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '+';
    name += plain ? c : '-';
  }
  return name;
}

}  // namespace

Plan read_plan(const fs::path& file) {
  const std::string where = file.string();
  toml::table table = config::parse_toml(files::read_small_file(file, max_file), where);
  Reader reader(table, where, where);
  Plan plan{.name = reader.text("name").value_or(file.stem().string()),
            .base = reader.text("base").value_or(""),
            .settings = reader.texts("set"),
            .axes = {},
            .seeds = seeds_of(reader),
            .metric = reader.text("metric").value_or("")};
  require_settings(plan.settings, where);
  if (plan.base.empty()) wrong(where, "base = \"...\" must name a configuration file or a preset");
  for (const fs::path& beside :
       {file.parent_path() / plan.base, file.parent_path() / (plan.base + ".toml")}) {
    if (fs::is_regular_file(beside)) {
      plan.base = beside.string();
      break;
    }
  }
  if (const auto* node = reader.take("axis")) {
    const auto* array = node->as_array();
    if (array == nullptr)
      wrong(reader.place(*node), "an axis starts with [[axis]], in double brackets");
    for (const auto& element : *array) {
      if (!element.is_table()) wrong(reader.place(element), "an axis starts with [[axis]]");
      plan.axes.push_back(axis_of(*element.as_table(), reader.place(element), where));
    }
  }
  reader.require_all_taken();
  return plan;
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
      const auto comma = rest.find(',');
      const std::string value(rest.substr(0, comma));
      if (value.empty()) wrong(where, "a value is empty; separate them by one comma each");
      std::optional<double> number;
      try {
        number = parse_number("axis", "value", value);
      } catch (const std::invalid_argument&) {
        number.reset();  // a text
      }
      axis.values.push_back(
          {.label = value, .settings = {std::string(head) + "=" + value}, .number = number});
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    axis.logarithmic = is_logarithmic(axis.values);
    return axis;
  }
  const auto table = config::parse_toml("axis = {" + std::string(text) + "}", where);
  return axis_of(*table["axis"].as_table(), where, where);
}

std::vector<Cell> cells_of(const Plan& plan) {
  std::vector<Cell> cells = {Cell{.at = {}, .name = "", .settings = plan.settings}};
  for (const auto& axis : plan.axes) {
    std::vector<Cell> longer;
    for (const auto& cell : cells) {
      for (size_t i = 0; i < axis.values.size(); ++i) {
        Cell next = cell;
        next.at.push_back(i);
        next.name += file_name(axis.name) + "-" + file_name(axis.values[i].label) + "_";
        next.settings.insert(next.settings.end(), axis.values[i].settings.begin(),
                             axis.values[i].settings.end());
        longer.push_back(std::move(next));
      }
    }
    cells = std::move(longer);
  }
  std::vector<Cell> result;
  std::set<std::string> names;
  for (const auto& cell : cells) {
    for (const auto seed : plan.seeds) {
      Cell next = cell;
      next.seed = seed;
      next.name += "seed-" + std::to_string(seed);
      next.settings.push_back("run.seed=" + std::to_string(seed));
      if (!names.insert(next.name).second) {
        wrong("sweep", "two cells are called ", next.name,
              "; a value or seed is given twice, or labels differ only in signs that file names "
              "lack");
      }
      result.push_back(std::move(next));
    }
  }
  return result;
}

}  // namespace normball::trainer::sweep
