#include "normball/base/text.h"

#include <algorithm>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <numeric>
#include <utility>

#include "normball/base/error.h"

namespace normball {
namespace {

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

// The commas outside parentheses separate.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      parts.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    } else if (text[i] == '(') {
      ++depth;
    } else if (text[i] == ')') {
      --depth;
    }
  }
  return parts;
}

// Letters inserted, left out, replaced, or swapped with their neighbour. A * in a stands for any
// part of b.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last, row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    before = std::exchange(last, row);
    if (a[i] == '*') {
      for (size_t j = 0; j < b.size(); ++j) row[j + 1] = std::min(row[j + 1], row[j]);
      continue;
    }
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({row[j] + 1, last[j + 1] + 1, last[j] + (a[i] == b[j] ? 0 : 1)});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

}  // namespace

TextCall TextCall::parse(std::string_view where, std::string_view text) {
  text = trim(text);
  TextCall call{.where = std::string(where), .name = {}, .arguments = {}};
  const auto open = text.find('(');
  call.name = trim(text.substr(0, open));
  if (call.name.empty()) throw_invalid(where, "expected a name, got '", text, "'");
  if (open == std::string_view::npos) return call;
  if (text.back() != ')') throw_invalid(where, "missing ')' at the end of '", text, "'");
  const auto inside = trim(text.substr(open + 1, text.size() - open - 2));
  if (inside.empty()) return call;
  for (const auto part : split(inside)) {
    if (part.empty()) throw_invalid(where, "empty argument in '", text, "'");
    const auto equals = part.substr(0, part.find('(')).find('=');
    if (equals == std::string_view::npos) {
      call.arguments.push_back({"", std::string(part)});
    } else {
      const auto key = trim(part.substr(0, equals));
      if (std::ranges::count(call.arguments, key, &Argument::key) > 0) {
        throw_invalid(where, "'", text, "' has ", key, "=... twice");
      }
      const auto value = trim(part.substr(equals + 1));
      if (value.empty()) throw_invalid(where, "'", text, "' has ", key, "= without a value");
      call.arguments.push_back({std::string(key), std::string(value)});
    }
  }
  return call;
}

bool TextCall::take_flag(std::string_view flag) {
  asked.emplace_back(flag);
  return std::erase_if(arguments,
                       [&](const Argument& a) { return a.key.empty() && a.value == flag; }) > 0;
}

std::string TextCall::take(std::string_view key, std::string_view fallback) {
  asked.push_back(std::string(key) + "=...");
  const auto found = std::ranges::find(arguments, key, &Argument::key);
  if (found == arguments.end()) return std::string(fallback);
  std::string value = std::move(found->value);
  arguments.erase(found);
  return value;
}

double TextCall::take_number(std::string_view key, double fallback) {
  const std::string value = take(key, "");
  return value.empty() ? fallback : parse_number(where, key, value);
}

double TextCall::take_number(std::string_view key) {
  const std::string value = take(key, "");
  if (value.empty()) throw_invalid(where, "'", name, "' needs ", key, "=<number>");
  return parse_number(where, key, value);
}

void TextCall::require_all_taken() const {
  if (arguments.empty()) return;
  const auto& [key, value] = arguments.front();
  const std::vector<std::string_view> names(asked.begin(), asked.end());
  throw_invalid(where, "'", name, "' does not take '", key, key.empty() ? "" : "=", value, "'; ",
                names.empty() ? "it takes nothing" : "it takes " + list_of(names));
}

double parse_number(std::string_view where, std::string_view what, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw_invalid(where, what, " must be a number, got '", text, "'");
  }
  return value;
}

std::string number_text(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, result.ptr};
}

std::string printed(const char* pattern, ...) {
  std::va_list values, again;
  va_start(values, pattern);
  va_copy(again, values);
  std::string text(static_cast<size_t>(std::vsnprintf(nullptr, 0, pattern, values)), '\0');
  va_end(values);
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  for (size_t at = 0; (at = text.find("-nan", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

std::string call_text(std::string_view name, std::initializer_list<std::string> options) {
  std::string inside;
  for (const auto& option : options) {
    if (option.empty()) continue;
    inside += (inside.empty() ? "" : ", ") + option;
  }
  return std::string(name) + (inside.empty() ? "" : "(" + inside + ")");
}

std::string list_of(std::span<const std::string_view> names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known) {
  const auto nearest = std::ranges::min_element(
      known, {}, [&](std::string_view candidate) { return edit_distance(name, candidate); });
  return nearest == known.end() ? std::string_view() : *nearest;
}

std::string unknown_name(std::string_view what, std::string_view name,
                         std::span<const std::string_view> known) {
  std::string text = "unknown " + std::string(what) + " '" + std::string(name) + "'";
  auto nearest = nearest_name(name, known);
  const auto longer = [&](std::string_view candidate) {
    return name.size() > 2 && candidate.starts_with(name);
  };
  const bool begins = std::ranges::count_if(known, longer) == 1;  // which is what is meant
  if (begins) nearest = *std::ranges::find_if(known, longer);
  if (begins || (!nearest.empty() &&
                 edit_distance(name, nearest) <= std::max<size_t>(1, nearest.size() / 3))) {
    text += "; did you mean '" + std::string(nearest) + "'?";
  } else {
    text += '.';
  }
  return text + " Allowed: " + list_of(known);
}

}  // namespace normball
