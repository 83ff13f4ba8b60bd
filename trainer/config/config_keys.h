// The one table of configuration keys. Reading, writing, checking, `normball config --keys` and
// docs/configuration.md all come from it.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trainer/config/config.h"

namespace normball::trainer::config {

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;

  bool contains(double value) const;
  std::string text() const;  // "> 0", ">= 1", "in (0, 1]"; empty if there is no limit
};

// A function that gives the key's place in a configuration, one for each type a key can have.
template <class T>
using At = T& (*)(Config&);
using Place =
    std::variant<At<bool>, At<std::int64_t>, At<double>, At<std::optional<double>>,
                 At<std::optional<NumberOrAuto>>, At<std::string>, At<std::vector<std::int64_t>>,
                 At<std::vector<double>>, At<std::vector<Route>>>;

enum class OnResume { Same, Free };

struct Key {
  std::string_view section;
  std::string_view name;
  Place place;
  Range range = {};                                 // of numbers, or of each in a list
  std::vector<std::string_view> choices = {};       // of texts
  void (*check)(std::string_view value) = nullptr;  // of texts; throws std::invalid_argument
  OnResume on_resume = OnResume::Same;
  std::string_view help;

  std::string full_name() const { return std::string(section) + "." + std::string(name); }
  std::string type() const;
  std::string allowed() const;
};

std::span<const Key> config_keys();

// The key's value as TOML; empty where an optional one is not set.
std::string value_text(const Key& key, const Config& config);

// A Markdown page with all keys.
std::string keys_as_markdown();

}  // namespace normball::trainer::config
