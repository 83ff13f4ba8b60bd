#include "trainer/sweep/plan.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "normball/base/text.h"
#include "trainer/config/config_error.h"
#include "trainer/config/config_layers.h"
#include "trainer/config/table_reader.h"
#include "trainer/files/file_system.h"
#include "trainer/sweep/axis.h"

namespace normball::trainer::sweep {
namespace fs = std::filesystem;
namespace {

using config::wrong;

constexpr std::uintmax_t max_file = 1 << 20;
constexpr double max_first = 1e12, max_factor = 1e4;  // their product is far from an overflow

std::optional<Halving> read_halving(config::TableReader& reader) {
  const auto* node = reader.take("halving");
  if (node == nullptr) return std::nullopt;
  if (!node->is_table()) {
    wrong(reader.place(*node), "halving must be a table such as { first = 100, factor = 3 }");
  }
  auto table = reader.inner(*node->as_table());
  const auto first = table.number("first");
  if (!first) wrong(table.where(), "halving needs first, the step of the first comparison");
  Halving halving;
  const double factor = table.number("factor").value_or(static_cast<double>(halving.factor));
  if (!(*first >= 1 && *first <= max_first && *first == std::floor(*first))) {
    wrong(table.where(), "first must be a step, a whole number from 1, got ", *first);
  }
  if (!(factor >= 2 && factor <= max_factor && factor == std::floor(factor))) {
    wrong(table.where(), "factor must be a whole number from 2 to ", max_factor, ", got ", factor);
  }
  table.require_all_taken();
  halving.first = static_cast<std::int64_t>(*first);
  halving.factor = static_cast<std::int64_t>(factor);
  return halving;
}

// The last setting of the key, which the factor then multiplies; six digits are kept.
void multiply(std::vector<std::string>& settings, const Axis& axis, const AxisValue& value) {
  const std::string start = axis.factor_of + "=";
  const auto found = std::find_if(settings.rbegin(), settings.rend(),
                                  [&](const auto& setting) { return setting.starts_with(start); });
  if (found == settings.rend()) {
    wrong(
        "sweep", "the axis ", axis.name, " multiplies ", axis.factor_of,
        ", which neither set nor another axis gives; add it to set, or to each value of that axis");
  }
  const double number = parse_number("sweep", axis.factor_of, found->substr(start.size()));
  const std::string product = printed("%.6g", *value.number * number);
  *found = start + number_text(parse_number("sweep", axis.factor_of, product));
}

}  // namespace

std::string file_name(std::string_view label) {
  std::string name;
  bool gap = false;
  for (const char c : label) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '+';
    if (plain || !gap) name += plain ? c : '-';
    gap = !plain;
  }
  return name;
}

std::string base_beside(const fs::path& file, const std::string& base) {
  for (const fs::path& beside :
       {file.parent_path() / base, file.parent_path() / (base + ".toml")}) {
    if (fs::is_regular_file(beside)) return beside.string();
  }
  return base;
}

Halving parse_halving(std::string_view text) {
  const std::string where = "--halving " + std::string(text);
  const auto comma = text.find(',');
  std::string table = "halving = { first = " + std::string(text.substr(0, comma));
  if (comma != std::string_view::npos) {
    table.append(", factor = ").append(text.substr(comma + 1));
  }
  config::TableReader reader(config::parse_toml(table + " }", where), where, where);
  return *read_halving(reader);
}

Plan read_plan(const fs::path& file) {
  const std::string where = file.string();
  config::TableReader reader(config::parse_toml(files::read_small_file(file, max_file), where),
                             where, where);
  Plan plan{.name = reader.text("name").value_or(file.stem().string()),
            .base = reader.text("base").value_or(""),
            .settings = reader.settings("set"),
            .axes = {},
            .seeds = reader.seeds("seeds"),
            .metric = reader.text("metric").value_or(""),
            .halving = read_halving(reader)};
  if (plan.seeds.empty()) plan.seeds = {0};
  if (plan.base.empty()) wrong(where, "base = \"...\" must name a configuration file or a preset");
  plan.base = base_beside(file, plan.base);
  for (auto& axis : reader.tables("axis")) plan.axes.push_back(read_axis(axis));
  reader.require_all_taken();
  return plan;
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
  for (auto& cell : cells) {
    for (size_t i = 0; i < plan.axes.size(); ++i) {
      const Axis& axis = plan.axes[i];
      if (!axis.factor_of.empty()) multiply(cell.settings, axis, axis.values[cell.at[i]]);
    }
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
        wrong(
            "sweep", "two cells are called ", next.name,
            "; a value or seed is given twice, or labels differ only in characters that file names "
            "cannot have");
      }
      result.push_back(std::move(next));
    }
  }
  return result;
}

}  // namespace normball::trainer::sweep
