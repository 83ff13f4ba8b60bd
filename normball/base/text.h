// The one text form of the library's values:  name  or  name(argument, key=value, ...), nested.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace normball {

// A parsed value. `where` names what is being read in errors, e.g. "parse_norm".
struct TextCall {
  struct Argument {
    std::string key;  // empty for a positional argument
    std::string value;
  };

  std::string where;
  std::string name;
  std::vector<Argument> arguments;

  static TextCall parse(std::string_view where, std::string_view text);

  std::vector<std::string> asked = {};  // what readers have looked for: "transposed", "rho=..."

  // Takes the argument out; each reader takes what it knows and then calls require_all_taken(),
  // whose error names all that was asked for.
  bool take_flag(std::string_view flag);
  std::string take(std::string_view key, std::string_view fallback);
  double take_number(std::string_view key, double fallback);
  double take_number(std::string_view key);  // required
  void require_all_taken() const;
};

double parse_number(std::string_view where, std::string_view what, std::string_view text);

// Shortest text that reads back as the same double.
std::string number_text(double value);

// As printf() would, except that NaN has no sign: printed("%.2f ms", 1.5).
std::string printed(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

// "name", or "name(a, b)" of the options that are not empty: what TextCall::parse() reads.
std::string call_text(std::string_view name, std::initializer_list<std::string> options);

// "a, b or c"
std::string list_of(std::span<const std::string_view> names);

// The known name that takes the fewest edits; a * in `name` stands for anything. Empty if none.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known);

// "unknown norm 'spektral'; did you mean 'spectral'? Known: ..."
std::string unknown_name(std::string_view what, std::string_view name,
                         std::span<const std::string_view> known);

}  // namespace normball
