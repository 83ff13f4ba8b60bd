// `normball report RUN...`: one page with the curves and results of one or several runs.
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "trainer/run/atomic_file.h"
#include "trainer/run/report.h"

namespace normball::cli {
namespace {

struct Options {
  std::vector<std::string> runs;
  std::string out;
};

void write_report(const Options& options) {
  std::vector<run::RunData> runs;
  for (const auto& directory : options.runs) runs.push_back(run::read_run(directory));
  std::filesystem::path out = options.out;
  if (out.empty()) {
    out = runs.size() == 1 ? std::filesystem::path(options.runs[0]) / "report.html" : "report.html";
  }
  run::write_file_atomically(run::FileSystem::real(), out, run::report_page(runs));
  std::cout << "written to " << out.string() << '\n';
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* report = app.add_subcommand("report", "One self-contained HTML page that compares runs");
  report->add_option("runs", options->runs, "Run directories, e.g. runs/demo")->required();
  report->add_option(
      "--out", options->out,
      "The page (default: report.html in the run's directory; with several runs, here)");
  report->callback([options] { write_report(*options); });
}

}  // namespace normball::cli
