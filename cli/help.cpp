#include "cli/help.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/table.h"
#include "trainer/runtime/terminal.h"

namespace normball::cli {
namespace {

constexpr int column = 30, widest = 100;

std::string entry(const std::string& name, const std::string& description) {
  const int width = std::min(trainer::runtime::output_columns(), widest) - column;
  std::string text = "  " + name;
  // A long name has a line of its own.
  const auto used = static_cast<size_t>(trainer::runtime::display_width(text));
  if (used >= column) text += '\n';
  text.append(used < column ? column - used : column, ' ');
  const auto lines = wrap(description, std::max(width, 20));
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text.append(column, ' ');
    text += lines[i] + '\n';
  }
  return text;
}

// CLI11 has "INT", or "INT:" and what its checks say of themselves.
std::string type_of(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  return text.substr(0, text.find(':'));
}

std::string allowed(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return "";
  return text.substr(colon + 1);
}

// As it would be typed: a list is "[a,b]" to CLI11.
std::string default_of(const CLI::Option& option) {
  std::string text = option.get_default_str();
  if (!text.starts_with('[')) return text;
  text = text.substr(1, text.size() - 2);
  std::ranges::replace(text, ',', ' ');
  return text;
}

bool takes_several(const CLI::Option& option) {
  return option.get_expected_max() >= CLI::detail::expected_max_vector_size &&
         option.get_allow_extra_args();
}

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return entry(make_option_name(option, is_positional) + make_option_opts(option),
               make_option_desc(option));
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (type_of(*option).empty()) return "";  // a flag
  const std::string type = ' ' + type_of(*option) + (takes_several(*option) ? " ..." : "");
  return option->get_expected_min() == 0 ? " [" + type.substr(1) + ']' : type;
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::vector<std::string> remarks;
  if (!type_of(*option).empty()) {
    if (const auto text = allowed(*option); !text.empty()) remarks.push_back(text);
    if (const auto text = default_of(*option); !text.empty()) {
      remarks.push_back((option->get_expected_min() == 0 ? "alone: " : "default: ") + text);
    }
    if (option->get_required() && !option->get_positional()) remarks.emplace_back("required");
  }
  for (const auto* other : option->get_needs()) remarks.push_back("needs " + other->get_name());
  for (const auto* other : option->get_excludes()) {
    remarks.push_back("not with " + other->get_name());
  }
  std::string text = option->get_description();
  for (size_t i = 0; i < remarks.size(); ++i) text += (i == 0 ? " (" : "; ") + remarks[i];
  return remarks.empty() ? text : text + ')';
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_display_name(true), command->get_description());
}

}  // namespace normball::cli
