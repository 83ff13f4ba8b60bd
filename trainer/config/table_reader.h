// A TOML table read key by key, by files that are not configurations: sweeps and experiments.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace normball::trainer::config {

// Each reader takes what it knows and then calls require_all_taken(). Errors name file and line.
class TableReader {
 public:
  // `where` is the table's place, `file` that of its lines.
  TableReader(toml::table table, std::string where, std::string file);
  // Of a table inside this one. (A copy of it would not know its lines.)
  TableReader inner(const toml::table& table) const;

  const std::string& where() const { return where_; }
  const std::string& file() const { return file_; }
  std::string place(const toml::node& node) const;

  // The key's node, or nullptr; it counts as read.
  const toml::node* take(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  std::string required_text(std::string_view key);
  std::optional<std::int64_t> count(std::string_view key, std::int64_t least);
  std::optional<double> number(std::string_view key);
  std::vector<std::string> texts(std::string_view key);
  // Two numbers, the smaller first; positive where asked.
  struct Ends {
    double low = 0, high = 0;
  };
  std::optional<Ends> ends(std::string_view key, bool positive);
  // "section.key=value" each.
  std::vector<std::string> settings(std::string_view key);
  // A number of seeds, from 0, or a list of them; none where the key is missing.
  std::vector<std::int64_t> seeds(std::string_view key);
  // The tables of [[key]].
  std::vector<TableReader> tables(std::string_view key);

  void require_all_taken() const;

 private:
  TableReader(std::shared_ptr<const toml::table> owner, const toml::table& table, std::string where,
              std::string file);

  std::shared_ptr<const toml::table> owner_;  // of the whole
  const toml::table* table_;
  std::string where_, file_;
  std::vector<std::string_view> known_;
  std::set<std::string, std::less<>> taken_;
};

constexpr std::int64_t max_count = 10'000;  // that a file can ask for

}  // namespace normball::trainer::config
