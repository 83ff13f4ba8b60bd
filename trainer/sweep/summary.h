// A sweep over its seeds: each point of the grid with its interval, the best, and what to know
// before believing it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/sweep/plan.h"
#include "trainer/sweep/results.h"
#include "trainer/sweep/statistics.h"

namespace normball::trainer::sweep {

// What a cell is judged by: the summary of a curve.
struct Metric {
  std::string curve;        // "val_loss"
  std::string of = "last";  // or "tail", "best"

  std::string text() const { return of == "last" ? curve : curve + " (" + of + ")"; }
};
// "val_loss", "val_loss tail"; empty: the accuracy, else the validation loss, else the loss,
// whatever the results have.
Metric metric_of(std::string_view text, std::span<const Result> results);
// Throws where no run can have the metric, so that nobody learns it after the last one.
void check_metric(std::string_view text);

// The cells of one place on the axes: one for each seed.
struct Point {
  std::vector<size_t> at;
  std::vector<std::optional<double>> values;  // for each seed of the plan; none: not finished
  int diverged = 0, failed = 0, missing = 0, stopped = 0;
  std::string stop = {};  // the reason of those that were stopped

  bool whole() const;                                           // every seed finished
  std::optional<Estimate> estimate(double level = 0.95) const;  // over the seeds that finished
  // Of one that is not whole: "failed", "diverged", "stopped" or "not run".
  std::string state() const;
};

struct Summary {
  Metric metric;
  std::vector<Point> points;         // the last axis changes fastest
  std::optional<size_t> best = {};   // of the points that are whole
  size_t there = 0, planned = 0;     // runs; the best is the best so far while some are missing
  std::vector<std::string> remarks;  // border, overlap, what failed, the budget

  bool complete() const { return there == planned; }
};
Summary summarize(const Plan& plan, std::span<const Result> results);

double value_of(const CurveSummary& curve, const Metric& metric);

// That the best lies at the end of an axis of several numbers; empty where it does not.
std::string border_remark(const Axis& axis, size_t at);

std::string label_of(const Plan& plan, const Point& point);  // "lr 0.1, rho 3"
std::string seeds_text(const Plan& plan);                    // "one seed", "mean of 3 seeds"

}  // namespace normball::trainer::sweep
