#include "lab/statement.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "normball/base/error.h"
#include "normball/base/parallel.h"
#include "normball/base/text.h"

namespace normball::lab {
namespace {

template <class Range>
std::vector<std::string> chosen(const std::vector<std::string>& wanted, const Range& all) {
  if (wanted.empty()) return {all.begin(), all.end()};
  std::vector<std::string> once;
  for (const auto& name : wanted) {
    if (std::ranges::find(once, name) == once.end()) once.push_back(name);
  }
  return once;
}

}  // namespace

std::vector<Statement> statements() {
  std::vector<Statement> all;
  for (const auto part : {deterministic_statements(), clipped_statements(),
                          constrained_statements(), stepsize_statements(), search_statements(),
                          stochastic_statements(), rate_statements(), printed_statements()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

const Statement& find_statement(const std::vector<Statement>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Statement::name);
  if (found != all.end()) return *found;
  std::vector<std::string_view> names;
  for (const auto& statement : all) names.push_back(statement.name);
  throw_invalid("lab", unknown_name("statement", name, names));
}

std::vector<Job> plan(const std::vector<Statement>& all, const Filter& filter) {
  std::vector<std::string_view> statement_names, problem_names;
  for (const auto& statement : all) statement_names.push_back(statement.name);
  for (const auto& problem : problems()) problem_names.push_back(problem.name);

  std::vector<Job> jobs;
  const bool everything = filter.norms.empty() && filter.problems.empty();
  for (const auto& name : chosen(filter.statements, statement_names)) {
    const Statement& statement = find_statement(all, name);
    if (statement.check_worst_case != nullptr) {
      if (everything) jobs.push_back({&statement, "line", "zigzag"});
      continue;
    }
    for (const auto& problem_name : chosen(filter.problems, problem_names)) {
      for (const auto& norm : chosen(filter.norms, space_names())) {
        const auto problem = make_problem(problem_name, make_space(norm));
        if (statement.applies(*problem)) jobs.push_back({&statement, norm, problem_name});
      }
    }
  }
  if (jobs.empty()) {
    throw_invalid("lab", "no statement applies: the problem lacks the constants it needs, or the ",
                  "statement is about one worst case and takes no norm or problem");
  }
  return jobs;
}

std::vector<Row> run_job(const Job& job, const Settings& settings) {
  auto rows =
      job.statement->check_worst_case != nullptr
          ? job.statement->check_worst_case(settings)
          : job.statement->check(*make_problem(job.problem, make_space(job.norm)), settings);
  for (auto& row : rows) {
    row.statement = job.statement->name;
    row.norm = job.norm;
    row.problem = job.problem;
    row.counts = job.statement->kind != Kind::Printed;
  }
  return rows;
}

std::vector<Row> run_jobs(std::span<const Job> jobs, const Settings& settings, int threads,
                          const std::function<void(size_t done, const Job&)>& finished) {
  std::vector<std::vector<Row>> parts(jobs.size());
  std::mutex mutex;
  size_t done = 0;
  parallel_for(static_cast<Index>(jobs.size()), threads, [&](Index i, int) {
    const auto& job = jobs[static_cast<size_t>(i)];
    parts[static_cast<size_t>(i)] = run_job(job, settings);
    const std::scoped_lock lock(mutex);
    ++done;
    if (finished) finished(done, job);
  });
  std::vector<Row> rows;
  for (auto& part : parts) {
    rows.insert(rows.end(), std::make_move_iterator(part.begin()),
                std::make_move_iterator(part.end()));
  }
  return rows;
}

void Tightest::offer(const std::string& setting, double bound, double measured) {
  const bool pass = measured <= bound;  // false for NaN
  if (any_ && (row_.pass != pass ? pass : !(bound / measured < row_.margin()))) return;
  any_ = true;
  row_.setting = setting;
  row_.bound = bound;
  row_.measured = measured;
  row_.pass = pass;
}

std::string describe(std::initializer_list<std::pair<const char*, double>> values) {
  std::string text;
  for (const auto& [name, value] : values) {
    text += printed("%s%s=%.4g", text.empty() ? "" : " ", name, value);
  }
  return text;
}

}  // namespace normball::lab
