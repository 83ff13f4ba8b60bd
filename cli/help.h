// The look of --help.
#pragma once

#include <CLI/CLI.hpp>

namespace normball::cli {

// Descriptions wrap at the width of the terminal, and end with what is allowed and the default.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

}  // namespace normball::cli
