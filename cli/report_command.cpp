// `normball report RUN...`: one page with the curves and results of one or several runs.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>

#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "normball/base/error.h"
#include "normball/base/text.h"
#include "trainer/report/report.h"
#include "trainer/runtime/terminal.h"

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

Result result_of(const trainer::report::RunData& data, const std::string& curve,
                 const char* pattern, double factor, bool largest) {
  const auto found = data.curves.find(curve);
  if (found == data.curves.end() || found->second.empty()) return {};
  const std::span points = found->second;
  double best = NAN;
  for (const auto& [step, seconds, value] : points) {
    if (std::isfinite(value) && !(largest ? value <= best : value >= best)) best = value;
  }
  const auto half = points.subspan(points.size() / 2);
  double sum = 0;
  for (const auto& point : half) sum += point.value;
  const auto text = [&](double value) {
    return printed(std::abs(value) < 1e6 ? pattern : "%.4g", value);
  };
  return {.last = text(factor * points.back().value),
          .best = text(factor * best),
          .mean = text(factor * sum / static_cast<double>(half.size()))};
}

// That a run diverged or stopped, as the page marks it; the remarks below the table say why.
std::string mark_of(const trainer::report::RunData& data) {
  return data.diverged || (data.nonfinite_step && data.skipped == 0) ? " ✕" : "";
}

bool has(const trainer::report::RunData& data, const char* curve) {
  return data.curves.contains(curve);
}

// The same results as on the page, side by side: accuracies where a run has one, then losses.
void print_results(const std::vector<trainer::report::RunData>& runs) {
  const bool accuracies = std::ranges::any_of(
      runs, [](const trainer::report::RunData& data) { return has(data, "val_accuracy"); });
  std::vector<std::string> header = {"run", "lr", "steps"};
  const auto add_header = [&](const auto&... text) { (header.emplace_back(text), ...); };
  if (accuracies) add_header("accuracy", "best accuracy", "mean of 2nd half");
  add_header("val loss", "best val loss",
             accuracies ? "mean val loss of 2nd half" : "mean of 2nd half", "train loss",
             "seconds");
  Table table(header);
  for (const auto& data : runs) {
    const auto setting = data.settings.find("lr");
    std::vector<std::string> row = {data.name,
                                    setting == data.settings.end() ? "-" : setting->second,
                                    std::to_string(data.steps) + mark_of(data)};
    const auto add = [&](const auto&... text) { (row.push_back(text), ...); };
    const Result accuracy = result_of(data, "val_accuracy", "%.2f %%", 100, true);
    const Result loss = result_of(data, "val_loss", "%.4f", 1, false);
    if (accuracies) add(accuracy.last, accuracy.best, accuracy.mean);
    add(loss.last, loss.best, loss.mean);
    add(result_of(data, "loss", "%.4f", 1, false).last,
        data.seconds ? printed("%.0f", *data.seconds) : "-");
    table.add(std::move(row));
  }
  table.print(std::cout);
  std::cout << "2nd half: of a run's evaluations, not of its steps\n";
  if (!trainer::report::of_one_task(runs)) {
    std::cout << "the runs differ in model or data: their results do not compare\n";
  }
  for (const auto& data : runs) {
    for (const auto& remark : data.remarks) {
      std::cout << "  " << data.name << ": " << remark << '\n';
    }
  }
}

// What a pattern such as runs/* brings along besides runs, in one sentence.
std::string not_runs(const std::vector<std::string>& names) {
  constexpr size_t shown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(shown, names.size()); ++i) {
    text += (text.empty() ? "" : ", ") + names[i];
  }
  if (names.size() > shown) text += " and " + std::to_string(names.size() - shown) + " more";
  std::error_code ignored;
  if (names.size() == 1 &&
      std::filesystem::exists(std::filesystem::path(names[0]) / "results.jsonl", ignored)) {
    return error_message("report", text, " is the directory of a sweep; name its runs (", names[0],
                         "/*), or compare them by `normball sweep` with --report");
  }
  return error_message("report", text, names.size() == 1 ? " has" : " have",
                       " no metrics.jsonl; name a run's directory, e.g. runs/first");
}

// Those that can be read; of the others, the reasons.
std::vector<trainer::report::RunData> read_runs(const std::vector<std::string>& directories,
                                                std::vector<std::string>& reasons) {
  std::vector<trainer::report::RunData> runs;
  std::vector<std::string> others;
  for (const auto& directory : directories) {
    std::error_code ignored;
    if (!std::filesystem::exists(std::filesystem::path(directory) / "metrics.jsonl", ignored)) {
      others.push_back(directory);
      continue;
    }
    try {
      runs.push_back(trainer::report::read_run(directory));
    } catch (const std::exception& error) {
      reasons.emplace_back(error.what());
    }
  }
  if (!others.empty()) reasons.push_back(not_runs(others));
  trainer::report::tell_apart(runs);
  return runs;
}

// Pages may be in a run's directory; whatever else is there is the run itself.
void refuse_file_of_run(const std::string& out, const std::vector<std::string>& directories) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path target = fs::weakly_canonical(fs::absolute(out), ignored);
  const auto refuse = [&](const fs::path& file) {
    throw CLI::ValidationError(error_message("report", "--out ", out, " is ", file.string(),
                                             ", a file of a run that is read; name a page of "
                                             "its own, e.g. report.html"));
  };
  for (const auto& directory : directories) {
    const fs::path run = fs::weakly_canonical(fs::absolute(directory), ignored);
    const fs::path inside = target.lexically_relative(run);
    const bool below = !inside.empty() && *inside.begin() != "..";
    if (below && target.extension() != ".html") refuse(target);
    // Another name of such a file, as hard links are.
    for (fs::recursive_directory_iterator i(run, ignored), end; i != end; i.increment(ignored)) {
      if (i->path().extension() != ".html" && i->is_regular_file(ignored) &&
          fs::equivalent(i->path(), target, ignored)) {
        refuse(i->path());
      }
    }
  }
}

void write_report(const Options& options) {
  std::string out = options.out;
  if (out.empty()) {
    out = options.runs.size() == 1 ? options.runs[0] + "/report.html" : "report.html";
  }
  refuse_file_of_run(out, options.runs);
  std::vector<std::string> reasons;
  const auto runs = read_runs(options.runs, reasons);
  for (const auto& reason : reasons) {
    std::cerr << "normball: " << (runs.empty() ? "" : "left out: ")
              << trainer::runtime::printable(reason) << '\n';
  }
  if (!runs.empty()) {
    OutputFile("report", out).write(trainer::report::report_page(runs));
    print_results(runs);
    std::cout << "\nThe curves: " << out << '\n';
  }
  if (!reasons.empty() || std::ranges::any_of(runs, &trainer::report::RunData::unreadable)) {
    throw CLI::RuntimeError(1);
  }
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* report = app.add_subcommand("report", "One self-contained HTML page that compares runs");
  report
      ->add_option(
          "runs", options->runs,
          "Run directories, e.g. runs/first; one that cannot be read is reported and left out "
          "(exit code 1)")
      ->required();
  report->add_option(
      "--out", options->out,
      "The page (default: report.html in the run's directory; with several runs, here)");
  report->callback([options] { write_report(*options); });
}

}  // namespace normball::cli
