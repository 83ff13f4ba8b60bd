#include "trainer/config/table_reader.h"

#include "normball/base/text.h"
#include "trainer/config/config_error.h"
#include "trainer/config/config_layers.h"

namespace normball::trainer::config {

TableReader::TableReader(toml::table table, std::string where, std::string file)
    : owner_(std::make_shared<const toml::table>(std::move(table))),
      table_(owner_.get()),
      where_(std::move(where)),
      file_(std::move(file)) {}

TableReader::TableReader(std::shared_ptr<const toml::table> owner, const toml::table& table,
                         std::string where, std::string file)
    : owner_(std::move(owner)), table_(&table), where_(std::move(where)), file_(std::move(file)) {}

TableReader TableReader::inner(const toml::table& table) const {
  return {owner_, table, place(table), file_};
}

std::string TableReader::place(const toml::node& node) const {
  return at_line(file_, node.source());
}

const toml::node* TableReader::take(std::string_view key) {
  known_.push_back(key);
  const auto found = table_->find(key);
  if (found == table_->end()) return nullptr;
  taken_.emplace(key);
  return &found->second;
}

std::optional<std::string> TableReader::text(std::string_view key) {
  const auto* node = take(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_string()) wrong(place(*node), key, " must be a string in quotes");
  return node->as_string()->get();
}

std::string TableReader::required_text(std::string_view key) {
  auto value = text(key);
  if (!value || value->empty()) wrong(where_, key, " = \"...\" is missing");
  return *value;
}

std::optional<std::int64_t> TableReader::count(std::string_view key, std::int64_t least) {
  const auto* node = take(key);
  if (node == nullptr) return std::nullopt;
  const auto value = node->value_exact<std::int64_t>();
  if (!value || *value < least || *value > max_count) {
    wrong(place(*node), key, " must be a whole number from ", least, " to ", max_count);
  }
  return *value;
}

std::optional<double> TableReader::number(std::string_view key) {
  const auto* node = take(key);
  if (node == nullptr) return std::nullopt;
  const auto value = node->value<double>();
  if (!value || !std::isfinite(*value)) wrong(place(*node), key, " must be a number");
  return *value;
}

std::vector<std::string> TableReader::texts(std::string_view key) {
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
    wrong(place(*node), key, " must be a list of strings in quotes");
  }
  return result;
}

std::optional<TableReader::Ends> TableReader::ends(std::string_view key, bool positive) {
  const auto* node = take(key);
  if (node == nullptr) return std::nullopt;
  const auto* array = node->as_array();
  if (array != nullptr && array->size() == 2) {
    const auto low = array->get(0)->value<double>(), high = array->get(1)->value<double>();
    if (low && high && *low < *high && (!positive || *low > 0)) return Ends{*low, *high};
  }
  wrong(place(*node), key, " must be two numbers, ", positive ? "both positive, " : "",
        "the smaller first");
}

std::vector<std::string> TableReader::settings(std::string_view key) {
  auto result = texts(key);
  for (const auto& setting : result) {
    if (setting.find('=') == std::string::npos) {
      wrong(where_, "'", setting, "' is not a setting; a setting is \"section.key=value\"");
    }
  }
  return result;
}

std::vector<std::int64_t> TableReader::seeds(std::string_view key) {
  const auto* node = take(key);
  if (node == nullptr) return {};
  std::vector<std::int64_t> seeds;
  if (const auto* array = node->as_array()) {
    for (const auto& element : *array) {
      const auto seed = element.value_exact<std::int64_t>();
      if (seed && *seed >= 0) seeds.push_back(*seed);
    }
    if (seeds.size() == array->size() && !seeds.empty()) return seeds;
  } else if (const auto number = node->value_exact<std::int64_t>();
             number && *number >= 1 && *number <= max_count) {
    for (std::int64_t seed = 0; seed < *number; ++seed) seeds.push_back(seed);
    return seeds;
  }
  wrong(place(*node), key, " must be a number of seeds, or a list of them (whole numbers from 0)");
}

std::vector<TableReader> TableReader::tables(std::string_view key) {
  const auto* node = take(key);
  if (node == nullptr) return {};
  const auto* array = node->as_array();
  std::vector<TableReader> result;
  if (array != nullptr) {
    for (const auto& element : *array) {
      if (const auto* table = element.as_table()) result.push_back(inner(*table));
    }
  }
  if (array == nullptr || result.size() != array->size()) {
    wrong(place(*node), "each ", key, " starts with [[", key, "]], in double brackets");
  }
  return result;
}

void TableReader::require_all_taken() const {
  for (const auto& [key, node] : *table_) {
    if (taken_.contains(std::string(key.str()))) continue;
    wrong(at_line(file_, key.source()), unknown_name("key", key.str(), known_));
  }
}

}  // namespace normball::trainer::config
