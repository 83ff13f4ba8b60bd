// `normball bench ranks --simulate`: the forecast of benchmarks/ranks_model.h as tables.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "benchmarks/lmo_times.h"
#include "benchmarks/measure.h"
#include "benchmarks/ranks_model.h"
#include "cli/bench_ranks.h"
#include "cli/doctor_head.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "normball/base/error.h"
#include "normball/base/text.h"

namespace normball::cli {
namespace {

using benchmarks::LmoTimes;
using benchmarks::RanksWork;
using nlohmann::json;

constexpr Index largest_measured_side = 1024;

const benchmarks::ParameterSet& shape_set(const std::string& name) {
  for (const auto& set : benchmarks::shape_sets()) {
    if (set.name == name) return set;
  }
  throw_invalid("bench ranks", "no shapes of '", name, "' are known");
}

// As `normball bench --json` writes them.
LmoTimes read_lmo_times(const std::string& path, const std::string& solver) {
  LmoTimes times;
  std::ifstream file(path);
  if (!file) throw_invalid("bench ranks", "'", path, "' cannot be read");
  try {
    const json all = json::parse(file);
    for (const auto& lmo : all.at("lmo")) {
      if (lmo.at("solver") != solver) continue;
      const auto [rows, cols] = benchmarks::parse_shape(lmo.at("shape").get<std::string>());
      times.add({.rows = rows, .cols = cols}, lmo.at("seconds"));
    }
  } catch (const json::exception& error) {
    throw_invalid("bench ranks", "'", path,
                  "' is not what `normball bench --json` writes: ", error.what());
  }
  if (times.empty()) {
    throw_invalid("bench ranks", "'", path, "' has no LMO of the solver '", solver,
                  "'; name another with --solver");
  }
  return times;
}

double parameters_of(const RanksWork& work) {
  double count = 0;
  for (const auto& layer : work.layers) count += static_cast<double>(layer.shape.size());
  return count;
}

class RanksSimulation {
 public:
  explicit RanksSimulation(const BenchRanks& options) : options_(options) {
    link_ = {options.bandwidth * 1e9, options.latency * 1e-6};
    if (!options.lmo_file.empty()) {
      times_ = read_lmo_times(options.lmo_file, options.solver);
    } else {
      const auto shapes =
          benchmarks::shapes_to_measure(benchmarks::shape_sets()[0].layers, largest_measured_side);
      times_ = benchmarks::measure_lmos(shapes, parse_polar_solver(options.solver), options.threads,
                                        options.rounds);
    }
    if (options.flops == 0 || options.copy == 0) {
      const auto limits = benchmarks::measure_limits(options.threads, options.rounds);
      if (options.flops == 0) options_.flops = limits.sgemm_flops / 1e9;
      if (options.copy == 0) options_.copy = limits.copy_bytes / 1e9;
    }
    result_ = {{"solver", options.solver},
               {"threads", options.threads},
               {"bytes_per_second", link_.bytes_per_second},
               {"latency", link_.latency},
               {"tokens", options.tokens},
               {"flops_per_second", options_.flops * 1e9},
               {"copy_bytes_per_second", options_.copy * 1e9}};
  }

  json run() {
    std::cout << "A forecast, not a measurement: LMOs (" << options_.solver << ") "
              << (options_.lmo_file.empty() ? "as measured here with --threads "
                                            : "of " + options_.lmo_file + " with --threads ")
              << options_.threads << ", other shapes by n²m;\npasses of " << options_.tokens
              << " tokens a rank at " << printed("%.0f", options_.flops) << " GF/s, copying at "
              << printed("%.1f", options_.copy) << " GB/s, a link of "
              << printed("%.2f", options_.bandwidth) << " GB/s and "
              << printed("%.0f", options_.latency) << " µs.\n";
    for (const auto& name : options_.models) add_model(name);
    return result_;
  }

 private:
  void add_model(const std::string& name) {
    RanksWork work{.layers = shape_set(name).layers};
    work.lmo_seconds = times_.seconds(work.layers);
    work.copy_bytes = options_.copy * 1e9;
    const double flops = 6 * parameters_of(work) * static_cast<double>(options_.tokens);
    work.passes_seconds = flops / (options_.flops * 1e9);
    const auto largest = std::ranges::max_element(work.lmo_seconds);
    const auto& layer = work.layers[static_cast<size_t>(largest - work.lmo_seconds.begin())];
    double sum = 0;
    for (const double seconds : work.lmo_seconds) sum += seconds;
    std::cout << '\n'
              << name << ", " << printed("%.2f", parameters_of(work) / 1e9)
              << " G parameters. All LMOs take " << printed("%.4g", sum) << " s, the largest ("
              << layer.shape.rows << "x" << layer.shape.cols << ") " << printed("%.4g", *largest)
              << " s: more than " << printed("%.0f", sum / *largest)
              << " ranks make them no faster unless it is split.\n\n";
    json rows;
    Table table({"ranks", "step", "passes", "LMOs", "balance", "memory", "exposed: gradients",
                 "directions", "messages", "sent by a rank", "LMOs split"});
    for (const int ranks : options_.ranks) {
      const auto f = benchmarks::forecast(work, link_, ranks);
      const double split = benchmarks::split_lmos(work, link_, ranks);
      const auto over = benchmarks::best_split(*largest, layer.shape, link_, ranks);
      const auto seconds = [](double value) {
        return printed(value < 1000 ? "%.4g s" : "%.0f s", value);
      };
      table.add({std::to_string(ranks), seconds(f.seconds), seconds(f.passes),
                 seconds(f.longest_lmos), printed("%.2f", f.balance()), seconds(f.memory),
                 seconds(f.exposed_gradients), seconds(f.exposed_directions), seconds(f.messages),
                 printed("%.0f MB", f.sent_bytes / 1e6),
                 seconds(split) + " (" + std::to_string(over.ranks) + ")"});
      rows.push_back({{"ranks", ranks},
                      {"seconds", f.seconds},
                      {"passes_seconds", f.passes},
                      {"longest_lmos_seconds", f.longest_lmos},
                      {"mean_lmos_seconds", f.mean_lmos},
                      {"memory_seconds", f.memory},
                      {"exposed_gradients_seconds", f.exposed_gradients},
                      {"exposed_directions_seconds", f.exposed_directions},
                      {"messages_seconds", f.messages},
                      {"sent_bytes", f.sent_bytes},
                      {"split_lmos_seconds", split},
                      {"split_over_ranks", over.ranks}});
    }
    table.print(std::cout);
    result_["models"].push_back({{"model", name},
                                 {"lmos_seconds", sum},
                                 {"largest_lmo_seconds", *largest},
                                 {"forecast", rows}});
  }

  BenchRanks options_;
  benchmarks::Link link_;
  LmoTimes times_;
  json result_;
};

}  // namespace

void simulate_ranks(const BenchRanks& options) {
  OutputFile file("bench ranks", options.json_file);
  std::cout << machine_head() << '\n';
  const json result = RanksSimulation(options).run();
  std::cout << "\n\"LMOs split\" is the same phase if the products of an LMO were divided by rows "
               "(not built); in brackets over how\nmany ranks that is best for the largest.\n";
  file.write(result.dump(2) + '\n');
  if (!options.json_file.empty()) std::cout << "\nwritten to " << options.json_file << '\n';
}

}  // namespace normball::cli
