// The paper's statements as inequalities: bound with all constants, measured value, pass or not.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/problem.h"
#include "lab/rate_fit.h"

namespace normball::lab {

struct Settings {
  bool quick = false;          // short runs, few seeds: seconds instead of minutes
  int seeds = 20;              // of every stochastic statement
  double stepsize_factor = 1;  // times γ: above 1 the statements' own condition is broken
  bool forget = false;         // rules with a memory lose it before every step: must fail
};

// measured <= bound is the claim. Where a statement ran in several settings (horizons, thresholds),
// the row is the one with the smallest margin.
struct Row {
  std::string statement = {};
  std::string norm = {};
  std::string problem = {};
  std::string setting = {};
  double bound = 0;
  double measured = 0;
  bool pass = true;
  bool counts = true;      // false: a printed form known to be wrong, run to show it
  std::int64_t steps = 0;  // of the optimizer, over all settings
  std::optional<RateFit> rate = {};

  double margin() const { return bound / measured; }
};

enum class Kind {
  Deterministic,
  Stochastic,
  Rate,
  Printed,  // what the paper prints where that does not hold
};

struct Statement {
  std::string_view name;
  std::string_view paper;  // its label there
  std::string_view claim;
  Kind kind;
  // Whether a problem has the constants that the statement needs.
  bool (*applies)(const Problem& problem);
  std::vector<Row> (*check)(const Problem& problem, const Settings& settings);
  // Statements about one fixed worst case instead of the problems × norms.
  std::vector<Row> (*check_worst_case)(const Settings& settings) = nullptr;
  bool seeds = kind == Kind::Stochastic || kind == Kind::Rate;  // whether Settings::seeds counts
};

std::vector<Statement> statements();
std::span<const Statement> deterministic_statements();
std::span<const Statement> clipped_statements();
std::span<const Statement> constrained_statements();
std::span<const Statement> stepsize_statements();
std::span<const Statement> search_statements();
std::span<const Statement> stochastic_statements();
std::span<const Statement> rate_statements();
std::span<const Statement> printed_statements();
const Statement& find_statement(const std::vector<Statement>& all, std::string_view name);

// One statement on one problem in one norm.
struct Job {
  const Statement* statement = nullptr;
  std::string norm = {};
  std::string problem = {};
};

// Empty filters take all; a name given twice counts once. Throws where a name is unknown or nothing
// is left to check.
struct Filter {
  std::vector<std::string> statements = {}, norms = {}, problems = {};
};
std::vector<Job> plan(const std::vector<Statement>& all, const Filter& filter);
std::vector<Row> run_job(const Job& job, const Settings& settings);

// Runs all jobs on several threads, rows in the order of the jobs. `finished` is called after each,
// one call at a time, with the number of jobs done.
std::vector<Row> run_jobs(std::span<const Job> jobs, const Settings& settings, int threads,
                          const std::function<void(size_t done, const Job&)>& finished = {});

// Keeps the setting with the smallest margin.
class Tightest {
 public:
  void offer(const std::string& setting, double bound, double measured);
  void add_steps(std::int64_t steps) { row_.steps += steps; }
  Row row() const { return row_; }

 private:
  Row row_;
  bool any_ = false;
};

// "γ=0.0123 ρ=4.5": four digits, several values.
std::string describe(std::initializer_list<std::pair<const char*, double>> values);

}  // namespace normball::lab
