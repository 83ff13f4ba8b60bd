// `normball report RUN...`: one page with the curves and results of one or several runs.
#include <algorithm>
#include <iostream>
#include <memory>
#include <span>

#include "cli/commands.h"
#include "cli/table.h"
#include "trainer/run/atomic_file.h"
#include "trainer/run/report.h"

namespace normball::cli {
namespace {

struct Options {
  std::vector<std::string> runs;
  std::string out;
};

// What a curve comes to, or dashes. Single evaluations at a fixed stepsize are noisy; the mean over
// the second half is what to compare.
struct Result {
  std::string last = "-", best = "-", mean = "-";
};

Result result_of(const run::RunData& data, const std::string& curve, const char* pattern,
                 double factor, bool largest) {
  const auto found = data.curves.find(curve);
  if (found == data.curves.end() || found->second.empty()) return {};
  const std::span points = found->second;
  const auto [low, high] = std::ranges::minmax(points, {}, &run::CurvePoint::value);
  const auto half = points.subspan(points.size() / 2);
  double sum = 0;
  for (const auto& point : half) sum += point.value;
  return {.last = format(pattern, factor * points.back().value),
          .best = format(pattern, factor * (largest ? high : low).value),
          .mean = format(pattern, factor * sum / static_cast<double>(half.size()))};
}

// The same results as on the page, side by side.
void print_results(const std::vector<run::RunData>& runs) {
  const bool accuracy = std::ranges::any_of(
      runs, [](const run::RunData& data) { return data.curves.contains("val_accuracy"); });
  std::vector<std::string> header = {"run", "lr", "steps"};
  if (accuracy) header.emplace_back("accuracy");
  header.insert(header.end(), {accuracy ? "best" : "best val loss", "mean of 2nd half", "val loss",
                               "train loss", "seconds"});
  Table table(header);
  for (const auto& data : runs) {
    const auto setting = data.settings.find("lr");
    const Result loss = result_of(data, "val_loss", "%.4f", 1, false);
    const Result result = accuracy ? result_of(data, "val_accuracy", "%.2f %%", 100, true) : loss;
    std::vector<std::string> row = {data.name,
                                    setting == data.settings.end() ? "-" : setting->second,
                                    std::to_string(data.steps)};
    if (accuracy) row.push_back(result.last);
    row.insert(row.end(),
               {result.best, result.mean, loss.last, result_of(data, "loss", "%.4f", 1, false).last,
                data.seconds ? format("%.0f", *data.seconds) : "-"});
    table.add(std::move(row));
  }
  table.print(std::cout);
}

void write_report(const Options& options) {
  std::vector<run::RunData> runs;
  for (const auto& directory : options.runs) runs.push_back(run::read_run(directory));
  std::filesystem::path out = options.out;
  if (out.empty()) {
    out = runs.size() == 1 ? std::filesystem::path(options.runs[0]) / "report.html" : "report.html";
  }
  run::write_file_atomically(run::FileSystem::real(), out, run::report_page(runs));
  print_results(runs);
  std::cout << "\nThe curves: " << out.string() << '\n';
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
