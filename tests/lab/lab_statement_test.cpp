#include <cmath>
#include <map>
#include <set>

#include "lab/bounds.h"
#include "lab/report.h"
#include "lab/run.h"
#include "lab/statement.h"
#include "testing.h"

namespace normball::lab {
namespace {

using testing::sanitized;

std::vector<Row> check(const Filter& filter, const Settings& settings) {
  const auto all = statements();
  return run_jobs(plan(all, filter), settings, 1);
}

void expect_all_pass(const std::vector<Row>& rows) {
  for (const auto& row : rows) {
    EXPECT_TRUE(row.pass || !row.counts)
        << row.statement << ", " << row.norm << ", " << row.problem << " (" << row.setting
        << "): measured " << row.measured << ", bound " << row.bound;
  }
}

TEST(Statements, DeterministicOnesHoldOnEveryProblemInEveryNorm) {
  Filter filter;
  for (const auto& s : statements()) {
    if (s.kind == Kind::Deterministic) filter.statements.emplace_back(s.name);
  }
  if (sanitized) {
    filter.norms = {"spectral", "product"};
    filter.problems = {"quadratic", "cosh", "logistic", "factorization"};
  }
  const auto rows = check(filter, {.quick = true});
  expect_all_pass(rows);
  if (sanitized) return;
  std::map<std::string, std::set<std::string>> norms_of;
  for (const auto& row : rows) {
    if (row.statement == "ggnc") norms_of[row.problem].insert(row.norm);
  }
  EXPECT_GE(norms_of.size(), 5u);
  for (const auto& [problem, norms] : norms_of) EXPECT_GE(norms.size(), 4u) << problem;
}

TEST(Statements, StochasticOnesHold) {
  expect_all_pass(check({.statements = {"ggnc-stochastic", "s3cg-stochastic", "ggnc-recursion",
                                        "s3cg-recursion", "ggnc-error", "s3cg-error"},
                         .norms = {"sign", "product"},
                         .problems = {"quadratic", "logistic", "cosh"}},
                        {.quick = true, .seeds = 5}));
}

TEST(Statements, RatesAreAQuarterOrSteeper) {
  const auto rows = check({.statements = {"ggnc-rate", "s3cg-rate"},
                           .norms = sanitized ? std::vector<std::string>{"euclidean"}
                                              : std::vector<std::string>{"euclidean", "sign"},
                           .problems = {"quadratic"}},
                          {.quick = true, .seeds = sanitized ? 2 : 6});
  expect_all_pass(rows);
  for (const auto& row : rows) {
    EXPECT_LT(row.rate->slope, -0.2);
    EXPECT_GT(row.rate->slope, -0.6);
    EXPECT_LT(row.rate->low, row.rate->slope);
  }
}

// The checks can fail: several times the largest stepsize that the theorem allows.
TEST(Statements, StepsAboveTheConditionAreCaught) {
  const std::vector<std::pair<const char*, double>> broken = {
      {"descent", 4},    {"ggnc", 4},      {"s3cg-descent", 4},
      {"clip-share", 4}, {"clip-tau", 16}, {"adagrad-smooth", 4}};
  for (const auto& [statement, factor] : broken) {
    const auto rows = check({.statements = {statement}, .problems = {"quadratic"}},
                            {.quick = true, .stepsize_factor = factor});
    size_t failed = 0;
    for (const auto& row : rows) failed += !row.pass;
    EXPECT_GT(failed, 0u) << statement;
  }
}

TEST(Statements, StepsBeyondTheLocalSmoothnessAreCaught) {
  const Settings broken{.quick = true, .stepsize_factor = 30};
  for (const auto statement : {"adagrad", "distance"}) {
    for (const auto& row : check({.statements = {statement}, .problems = {"cosh"}}, broken)) {
      EXPECT_FALSE(row.pass) << statement << ", " << row.norm;
    }
  }
}

// What a step may take off is a bound from below as well: shorter steps do less than was promised.
TEST(Statements, StepsBelowTheRuleAreCaught) {
  const Settings broken{.quick = true, .stepsize_factor = 0.01};
  for (const auto statement :
       {"momo-smooth", "momo", "momo-ball", "auto-clipped-smooth", "auto-clipped"}) {
    const auto rows = check({.statements = {statement}, .problems = {"quadratic"}}, broken);
    size_t failed = 0;
    for (const auto& row : rows) failed += !row.pass;
    EXPECT_GT(failed, 0u) << statement;
  }
}

// AdaGrad and the distance-aware steps without their memory are steps of one length, and a search
// that believes every trial is none.
TEST(Statements, RulesThatForgetAreCaught) {
  const Settings broken{.forget = true};
  for (const auto statement :
       {"adagrad-smooth", "adagrad-ball", "distance-smooth", "line-search", "smoothness-search"}) {
    const auto rows = check({.statements = {statement}, .problems = {"quadratic"}}, broken);
    size_t failed = 0;
    for (const auto& row : rows) failed += !row.pass;
    EXPECT_GT(failed, 0u) << statement;
  }
}

TEST(Statements, PrintedFormsAreRefuted) {
  const auto rows = check({.statements = {"printed-ggnc", "printed-ggnc-special", "printed-s3cg"}},
                          {.quick = true});
  for (const auto& row : rows) {
    EXPECT_FALSE(row.pass) << row.statement;
    EXPECT_FALSE(row.counts) << row.statement;
  }
  EXPECT_EQ(rows.size(), 3u);
  for (const auto& row : check({.statements = {"printed-error"}}, {.quick = true})) {
    EXPECT_FALSE(row.pass) << row.norm;
  }
}

// The worst case attains min ‖∇f‖ = √(4LΔ/(3n−1)), between the printed √(LΔ/n) and √(2LΔ/n).
TEST(Statements, ZigzagAttainsTheExactWorstCase) {
  for (const int n : {1, 2, 10, 100}) {
    const auto problem = make_zigzag(n);
    const double delta = problem->value(problem->start()) - problem->infimum();
    EXPECT_NEAR(delta, (3 * n - 1) / 4.0, 1e-12);
    lab::Run run(*problem, ggnc(1e9, 1e9), problem->start());
    for (int k = 0; k < n; ++k) {
      run.step();
      EXPECT_EQ(run.dual_norm(), 1) << "step " << k << " of " << n;
    }
    const Horizon h{delta, 1, 1e9, n};
    EXPECT_LT(ggnc_printed_bound(h), 1);
    EXPECT_GE(ggnc_bound(h), 1);
  }
}

TEST(Statements, AreTheSameOnOneThreadAndOnTwo) {
  const auto all = statements();
  const auto jobs = plan(all, {.statements = {"ggnc", "ggnc-stochastic"}, .problems = {"cosh"}});
  const Settings settings{.quick = true, .seeds = 3};
  const auto one = run_jobs(jobs, settings, 1), two = run_jobs(jobs, settings, 2);
  ASSERT_EQ(one.size(), two.size());
  for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].measured, two[i].measured);
}

TEST(Statements, UnknownNamesAndEmptyPlansAreErrors) {
  using normball::testing::expect_invalid;
  const auto all = statements();
  expect_invalid([&] { plan(all, {.statements = {"gnc"}}); }, {"gnc", "ggnc"});
  expect_invalid([&] { plan(all, {.statements = {"ggnc"}, .problems = {"factorization"}}); },
                 {"applies"});
}

TEST(Statements, TheMomentumLemmasSwappedInequalityIsFalse) {
  const double alpha = 0.1;
  EXPECT_GT((1 + 2 / alpha) * (1 - alpha), 1 - alpha / 2);  // as printed
  EXPECT_LE((1 + alpha / 2) * (1 - alpha), 1 - alpha / 2);  // what the proof needs
  EXPECT_LE((1 + 2 / alpha) * (1 - alpha), 2 / alpha);
}

TEST(RateFit, FindsTheExponentAndItsInterval) {
  Random random(3);
  std::vector<double> horizons;
  std::vector<std::vector<double>> samples;
  for (double n = 10; n < 2e4; n *= 10) {
    horizons.push_back(n);
    samples.emplace_back();
    for (int seed = 0; seed < 30; ++seed) {
      samples.back().push_back(3 * std::pow(n, -0.25) * (1 + 0.2 * random.normal()));
    }
  }
  const RateFit fit = fit_rate(horizons, samples);
  EXPECT_NEAR(fit.slope, -0.25, 0.02);
  EXPECT_LT(fit.low, -0.25);
  EXPECT_GT(fit.high, -0.25);
  EXPECT_LT(fit.high - fit.low, 0.06);
  normball::testing::expect_invalid([] { fit_rate({1}, {{1, 2}}); }, {"[fit_rate]"});
}

TEST(Report, CountsAndWrites) {
  const auto all = statements();
  const Settings settings{.quick = true, .seeds = 3};
  auto rows = check({.statements = {"descent", "printed-ggnc"}}, settings);
  rows.front().pass = false;
  const Summary summary = summarize(rows, 1);
  EXPECT_EQ(summary.failed, 1u);
  EXPECT_EQ(summary.refuted, 1u);
  EXPECT_GT(summary.descent_steps, 1000);
  EXPECT_NE(to_json(rows, summary, settings).find("\"violated\": 1"), std::string::npos);
  const std::string page = to_html(all, rows, summary, settings);
  EXPECT_NE(page.find("descent"), std::string::npos);
  for (const auto outside : {"http://", "https://", "src=", "@import"}) {
    const auto at = page.find(outside);
    EXPECT_TRUE(at == std::string::npos || page.compare(at, 19, "http://www.w3.org/2") == 0)
        << outside;
  }
}

}  // namespace
}  // namespace normball::lab
