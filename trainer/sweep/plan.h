// What a sweep runs: a configuration, and axes along which settings of it change.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace normball::trainer::sweep {

// One place on an axis: the settings it makes, as --set takes them, and what it is called.
struct AxisValue {
  std::string label;
  std::vector<std::string> settings;
  std::optional<double> number = {};  // where it is one number
};

struct Axis {
  std::string name;  // "lr" for optimizer.lr
  std::vector<AxisValue> values;
  bool logarithmic = false;    // the numbers are positive and spread over more than a factor of 4
  std::string factor_of = {};  // the key that the numbers multiply, instead of being its values
};

// Early stopping, which decides nothing: it only spends less on what is behind (halving.h).
struct Halving {
  std::int64_t first = 1;   // the step of the first comparison; the next are each times the factor
  std::int64_t factor = 3;  // one in so many points goes on
};

struct Plan {
  std::string name;
  std::string base;                   // a configuration file or preset
  std::vector<std::string> settings;  // of every cell
  std::vector<Axis> axes;
  std::vector<std::int64_t> seeds = {0};
  std::string metric = {};  // what cells are compared by; empty: val_accuracy, val_loss or loss
  std::optional<Halving> halving = {};
};

// Reads a sweep file:
//   base = "fashion-mnist-unconstrained-clipped-scion"
//   set = ["run.steps=200"]
//   seeds = 3                                  # 0, 1, 2; or a list
//   metric = "val_loss"
//   halving = { first = 50, factor = 3 }       # early stopping; without it, none
//   [[axis]]
//   key = "optimizer.lr"
//   log = [0.001, 1.0]                         # or linear = [0, 1], or values = [...]
//   points = 4                                 # or draws = 4 with seed = 1: at random
//   [[axis]]
//   keys = ["optimizer.lr", "optimizer.rho"]   # zipped
//   values = [[0.1, 3], [0.2, 6], { label = "no clip", set = ["optimizer.method=scion"] }]
//   [[axis]]
//   factor_of = "optimizer.lr"                 # multiplies what set or another axis gives
//   log = [0.1, 10]
//   points = 5
// An error names the file and line. A base that is a path is looked up beside the file.
Plan read_plan(const std::filesystem::path& file);

// A base that is a path beside the file, with or without .toml; else as it is.
std::string base_beside(const std::filesystem::path& file, const std::string& base);

// "100" or "100,3": halving of the command line.
Halving parse_halving(std::string_view text);

// What a label becomes in the name of a directory or file: what is no letter, no digit and none of
// ".+-" is a '-', one for several in a row.
std::string file_name(std::string_view label);

// An axis of the command line: "optimizer.lr=0.1,0.2", or the text of an [[axis]] on one line,
// "key = 'optimizer.lr', log = [0.001, 1], points = 4".
Axis parse_axis(std::string_view text);

// One training run of the sweep.
struct Cell {
  std::vector<size_t> at;  // the value on each axis
  std::int64_t seed = 0;
  std::string name;  // of its run directory: "lr-0.1_rho-3_seed-0"
  std::vector<std::string> settings;
};

// Every combination, the seeds innermost. Throws where two would have the same name, or where what
// a factor multiplies is not given.
std::vector<Cell> cells_of(const Plan& plan);

}  // namespace normball::trainer::sweep
