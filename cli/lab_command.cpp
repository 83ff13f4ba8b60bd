// `normball lab`: the paper's statements as inequalities, and its question as a picture.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "lab/picture.h"
#include "lab/report.h"
#include "lab/statement.h"
#include "normball/base/error.h"
#include "normball/base/parallel.h"
#include "normball/base/text.h"
#include "trainer/runtime/terminal.h"
#include "trainer/runtime/terminal_line.h"

namespace normball::cli {
namespace {

using namespace lab;

struct Options {
  Filter filter;
  Settings settings;
  bool seeds_given = false;
  int threads = 0;
  std::string json_file, html_file, svg_file;
  std::string statement;
  std::string norm = "spectral", problem = "cosh";
  int steps = 300;
};

void write(OutputFile& file, const std::string& name, const std::string& text) {
  if (name.empty()) return;
  file.write(text);
  std::cout << "written to " << name << '\n';
}

void list() {
  std::cout << "Statements (normball lab check NAME, or normball lab all):\n\n";
  Table table({"name", "in the paper"});
  for (const auto& s : statements()) table.add({std::string(s.name), std::string(s.paper)});
  table.print(std::cout, Table::Align::Left);
  std::cout << "\nProblems (--problem):\n\n";
  Table problem_table({"name", "what it is"});
  for (const auto& p : problems()) problem_table.add({std::string(p.name), std::string(p.about)});
  problem_table.print(std::cout, Table::Align::Left);
  std::cout << "\nNorms (--norm): euclidean, sign, spectral, row on a 5x3 matrix;\n"
               "product on three layers; or any other norm by its text, such as col\n"
               "or spectral(unit), on the matrix.\n";
}

// A line that is rewritten on a terminal; every tenth job as a line elsewhere.
class Progress {
 public:
  explicit Progress(size_t jobs)
      : jobs_(jobs), terminal_(trainer::runtime::can_redraw(STDERR_FILENO)) {}

  void operator()(size_t done, const Job& job) {
    const std::string count = std::to_string(done) + "/" + std::to_string(jobs_);
    const std::string what =
        std::string(job.statement->name) + " · " + job.norm + " · " + job.problem;
    if (terminal_) {
      const double share = static_cast<double>(done) / static_cast<double>(jobs_);
      line_.draw(trainer::runtime::progress_bar(share, 30) + ' ' + count + "  " + what);
      if (done == jobs_) line_.clear();
    } else if (done % 50 == 0 || done == jobs_) {
      std::cerr << count << ' ' << what << '\n';
    }
  }

 private:
  size_t jobs_;
  bool terminal_;
  trainer::runtime::TerminalLine line_{std::cerr};
};

std::string result_of(const Row& row) {
  if (row.counts) return row.pass ? "pass" : "FAIL";
  return row.pass ? "not refuted" : "refuted";
}

void print(const std::vector<Row>& rows) {
  Table table({"statement", "norm", "problem", "bound", "measured", "margin", "result"});
  for (const auto& row : rows) {
    table.add({row.statement, row.norm, row.problem, printed("%.4g", row.bound),
               printed("%.4g", row.measured), row.rate ? "" : printed("%.3g", row.margin()),
               result_of(row)});
  }
  table.print(std::cout);
}

void run_statements(const Options& options) {
  const auto all = statements();
  const auto jobs = named_by_user([&] { return plan(all, options.filter); });
  const bool seeds = std::ranges::any_of(jobs, [](const Job& job) { return job.statement->seeds; });
  if (options.seeds_given && !seeds) {
    throw CLI::ValidationError(
        "--seeds", "has no effect: " + options.statement + " is not stochastic. Leave it out");
  }
  require_two_files("lab", options.json_file, options.html_file);
  OutputFile json("lab", options.json_file);
  OutputFile html("lab", options.html_file);

  const int threads = options.threads > 0 ? options.threads : default_threads();
  const auto begin = std::chrono::steady_clock::now();
  const auto rows = run_jobs(jobs, options.settings, threads, Progress(jobs.size()));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;

  print(rows);
  for (const auto& row : rows) {
    if (row.rate)
      std::cout << "  " << row.statement << ' ' << row.norm << ' ' << row.problem << ": "
                << row.setting << '\n';
  }
  const Summary summary = summarize(rows, seconds.count());
  std::cout << '\n' << to_text(summary);
  write(json, options.json_file, to_json(rows, summary, options.settings));
  write(html, options.html_file, to_html(all, rows, summary, options.settings));
  if (summary.failed > 0) throw CLI::RuntimeError(1);
}

void draw(const Options& options) {
  const auto problem =
      named_by_user([&] { return make_problem(options.problem, make_space(options.norm)); });
  OutputFile svg("lab", options.svg_file);
  const Picture picture = named_by_user([&] { return race(*problem, options.steps); });
  const int columns =
      std::clamp(trainer::runtime::output_columns() - 16, 20, 84);  // beside the axis
  std::cout << picture.text << '\n'
            << to_terminal(picture.figure, columns, 20, trainer::runtime::shows_colors());
  write(svg, options.svg_file, to_svg(picture.figure));
}

void add_run_options(CLI::App& command, const std::shared_ptr<Options>& options) {
  command.add_option("--seeds", options->settings.seeds, "Seeds of every stochastic statement")
      ->check(integer_in(2, 10000))
      ->capture_default_str();
  command.add_flag("--quick", options->settings.quick,
                   "Short runs: all statements in about 100 s of processor time");
  command.add_option("--threads", options->threads, "Threads; 0: OpenMP's default")
      ->check(integer_in(0, 4096))
      ->capture_default_str();
  command.add_option("--json", options->json_file, "Also write the rows to this file");
  command.add_option("--html", options->html_file, "Also write a page to this file");
  command
      .add_option("--stepsize-factor", options->settings.stepsize_factor,
                  "Multiply every stepsize: above 1 the conditions are broken and statements may "
                  "fail")
      ->check(number_in({.low = 1e-6, .high = 1e6}))
      ->capture_default_str();
  command.add_flag("--forget", options->settings.forget,
                   "Take the memory of rules that have one away before every step: they may fail");
}

}  // namespace

void add_lab_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* lab = app.add_subcommand(
      "lab",
      "The paper's statements checked as inequalities; without a subcommand, a list of them");
  lab->require_subcommand(0, 1);
  lab->callback([lab] {
    if (lab->get_subcommands().empty()) list();
  });

  auto* all = lab->add_subcommand("all", "Check every statement; exit code 1 if one fails");
  add_run_options(*all, options);
  all->callback([options] { run_statements(*options); });

  auto* check = lab->add_subcommand("check", "Check one statement; exit code 1 if it fails");
  check->add_option("statement", options->statement, "Its name, from `normball lab`")->required();
  check->add_option("--norm", options->filter.norms, "Norms; several allowed (default: five)");
  check->add_option("--problem", options->filter.problems,
                    "Problems; several allowed (default: all that have the constants)");
  add_run_options(*check, options);
  check->callback([options, check] {
    options->seeds_given = check->count("--seeds") > 0;
    options->filter.statements = {options->statement};
    run_statements(*options);
  });

  auto* picture = lab->add_subcommand(
      "picture", "The paper's question: steepest, normalized and clipped descent on one problem");
  picture->add_option("--norm", options->norm, "The norm")->capture_default_str();
  picture->add_option("--problem", options->problem, "The problem")->capture_default_str();
  picture->add_option("--steps", options->steps, "Steps of each run")
      ->check(integer_in(10, 1'000'000))
      ->capture_default_str();
  picture->add_option("--svg", options->svg_file, "Also write the figure to this file");
  picture->callback([options] { draw(*options); });
}

}  // namespace normball::cli
