// `normball doctor`: what is good on this machine, and what is wrong and helps.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/doctor_head.h"
#include "cli/environment.h"
#include "doctor/examine.h"
#include "doctor/rate.h"

namespace normball::cli {
namespace {

using doctor::Facts;
using doctor::Finding;

struct Options {
  bool json = false;
  bool rate = false;
};

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// The rate of this program with other kernels, which a library chooses when it is loaded; 0 where
// it does not run with them.
double rate_with(const std::string& core_type) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string command = "OPENBLAS_CORETYPE=" + core_type + " " + quoted(program.string()) +
                              " doctor --rate 2>/dev/null";
  FILE* output = ::popen(command.c_str(), "r");
  if (output == nullptr) return 0;
  double rate = 0;
  if (std::fscanf(output, "%lf", &rate) != 1) rate = 0;
  return ::pclose(output) == 0 ? rate : 0;
}

nlohmann::json to_json(const std::vector<Finding>& findings) {
  nlohmann::json lines = nlohmann::json::array();
  for (const auto& [subject, state, text, remedy] : findings) {
    lines.push_back({{"subject", subject},
                     {"state", doctor::to_text(state)},
                     {"text", text},
                     {"remedy", remedy}});
  }
  return lines;
}

void examine_machine(const Options& options, const FurtherFindings& further) {
  if (options.rate) {
    std::cout << doctor::product_rate() << '\n';
    return;
  }
  Facts facts = doctor::examine(".");
  facts.self_chosen = adopted_environment();
  facts.rate = {facts.blas_core, doctor::product_rate()};
  for (const auto& type : doctor::core_types_to_compare(facts)) {
    if (const double rate = rate_with(type); rate > 0) facts.other_rates.push_back({type, rate});
  }
  auto findings = doctor::findings(facts);
  if (further) further(findings);
  if (options.json) {
    std::cout << to_json(findings).dump(2) << '\n';
  } else {
    std::cout << doctor::report_text(findings);
  }
  if (doctor::anything_wrong(findings)) throw CLI::RuntimeError(1);
}

}  // namespace

std::string machine_head() {
  Facts facts = doctor::examine(".");
  facts.self_chosen = adopted_environment();
  return doctor::report_text(doctor::short_form(doctor::findings(facts)));
}

void add_doctor_command(CLI::App& app, FurtherFindings further) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand(
      "doctor",
      "Check this machine: what is good and what is wrong; exit code 1 if something is wrong");
  auto* json = command->add_flag("--json", options->json, "Print the lines as JSON");
  command->add_flag("--rate", options->rate, "Print the rate of products on one thread only")
      ->excludes(json);
  command->callback(
      [options, further = std::move(further)] { examine_machine(*options, further); });
}

}  // namespace normball::cli
