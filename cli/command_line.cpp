#include "cli/command_line.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "normball/base/text.h"
#include "trainer/config/config.h"
#include "trainer/runtime/terminal.h"

namespace normball::cli {
namespace {

std::string unknown(std::string_view what, std::string_view given,
                    const std::vector<std::string>& names) {
  const std::vector<std::string_view> known(names.begin(), names.end());
  return unknown_name(what, given, known);
}

const CLI::App& innermost_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  return *command;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const auto* option : command.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    for (const auto& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

bool takes_words(const CLI::App& command) {
  for (const auto* option : command.get_options()) {
    if (option->get_positional()) return true;
  }
  return false;
}

// CLI11 says that a word is not expected, or that a command is missing; a typo deserves the nearest
// name. Words stay with the command that met them, the program itself first: after a mistyped
// command another word may be taken for one (`lunch -n 2 train`). Empty where it is no typo.
std::string typo(const CLI::App& app) {
  const CLI::App& command = app.remaining().empty() ? innermost_command(app) : app;
  for (const auto& word : command.remaining()) {
    if (word.size() > 1 && word.starts_with('-')) {
      return unknown("option", word.substr(0, word.find('=')), option_names(command));
    }
    std::vector<std::string> commands;
    for (const auto* sub : command.get_subcommands({})) commands.push_back(sub->get_name());
    if (!commands.empty() && !takes_words(command)) return unknown("command", word, commands);
  }
  return "";
}

// A forgotten value: CLI11 would take the option that follows for it.
void require_values(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto* const option = command->get_option_no_throw(words[i]);
    if (option != nullptr && words[i].starts_with('-') && option->get_items_expected_min() > 0) {
      if (++i == words.size()) return;  // CLI11 says so
      const std::string& value = words[i];
      const std::string next = value.substr(0, value.find('='));
      if (next.starts_with('-') && command->get_option_no_throw(next) != nullptr) {
        const std::string name = option->get_name();
        throw CLI::ValidationError(name, "needs a value, but " + next +
                                             " follows; if that is the " + "value, write " + name +
                                             "=" + value);
      }
    } else {
      for (const auto* const inner : command->get_subcommands({})) {
        if (inner->get_name() != words[i]) continue;
        command = inner;
        break;
      }
    }
  }
}

int wrong_command_line(CLI::App& app, const CLI::ParseError& error) {
  const bool words = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                     dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (const std::string text = words ? typo(app) : ""; !text.empty()) {
    return app.exit(CLI::ValidationError(text)) == 0 ? 0 : 2;
  }
  return app.exit(error) == 0 ? 0 : 2;
}

int failed(std::string_view text, int code = 1) {
  std::cerr << "normball: " << trainer::runtime::printable(text) << '\n';
  return code;
}

// The library's own text names its functions.
std::string plain_text(const std::filesystem::filesystem_error& error) {
  std::string text = error.path1().string();
  if (!error.path2().empty()) text += " to " + error.path2().string();
  return text + ": " + error.code().message();
}

}  // namespace

void refuse_empty_texts(CLI::App& app) {
  for (auto* option : app.get_options()) {
    if (!option->get_type_name().starts_with("TEXT")) continue;
    option->check([](const std::string& text) {
      return text.empty() ? std::string("must not be empty") : std::string();
    });
  }
  for (auto* command : app.get_subcommands({})) refuse_empty_texts(*command);
}

int run_command_line(CLI::App& app, int argc, char** argv) {
  app.failure_message([](const CLI::App* command, const CLI::Error& error) {
    return "normball: " + trainer::runtime::printable(CLI::FailureMessage::simple(command, error));
  });
  try {
    require_values(app, {argv + std::min(argc, 1), argv + argc});
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& error) {  // a command that ran and found its answer to be no
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return wrong_command_line(app, error);
  } catch (const trainer::config::SettingError& error) {
    return failed(error.what(), 2);
  } catch (const std::filesystem::filesystem_error& error) {
    return failed(plain_text(error));
  } catch (const std::ios_base::failure&) {  // of std::cout: no other stream throws
    throw;
  } catch (const std::bad_alloc&) {
    return failed(
        "there is not enough memory for this; smaller batches (train.micro_batch), models or "
        "matrices need less");
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

}  // namespace normball::cli
