// What all commands have in common: which words they take, and what a wrong one is answered with.
#pragma once

#include <CLI/CLI.hpp>
#include <stdexcept>

namespace normball::cli {

// An empty text is no file, directory or name: all options that take a TEXT refuse it.
void refuse_empty_texts(CLI::App& app);

// Parses and runs. The exit code is 0 only if all went well; 2 where the command line is wrong,
// whatever is on the disk; 1 for all else. Errors go to standard error, but for those of standard
// output, which are thrown.
int run_command_line(CLI::App& app, int argc, char** argv);

// What the user named wrong is misuse of the command line: std::invalid_argument becomes exit
// code 2.
template <class Body>
auto named_by_user(const Body& body) {
  try {
    return body();
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError(error.what());
  }
}

}  // namespace normball::cli
