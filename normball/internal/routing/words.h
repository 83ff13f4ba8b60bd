// The words in the names that models give their parameters. Internal.
#pragma once

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace normball::detail {

inline std::vector<std::string> split_at(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (separators.find(c) == std::string_view::npos) {
      parts.back() += c;
    } else {
      parts.emplace_back();
    }
  }
  return parts;
}

inline bool is_number(const std::string& text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

// The words of "word_embeddings_2": word, embeddings.
class Words {
 public:
  explicit Words(std::string_view name) {
    std::string lower;
    for (const char c : name) {
      const auto byte = static_cast<unsigned char>(c);
      lower += std::isdigit(byte) ? '_' : static_cast<char>(std::tolower(byte));
    }
    words_ = split_at(lower, "_-");
  }
  bool any_of(std::initializer_list<std::string_view> wanted) const {
    return std::ranges::any_of(
        words_, [&](const auto& word) { return std::ranges::find(wanted, word) != wanted.end(); });
  }
  bool any_contains(std::string_view part) const {
    return std::ranges::any_of(
        words_, [&](const auto& word) { return word.find(part) != std::string::npos; });
  }

 private:
  std::vector<std::string> words_;
};

}  // namespace normball::detail
