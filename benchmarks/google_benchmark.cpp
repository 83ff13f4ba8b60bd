// The measurements of `normball bench` as Google Benchmark targets, for its filters, repetitions,
// statistics and output formats:  normball_benchmark --benchmark_filter=lmo/768
#include <benchmark/benchmark.h>

#include <string>

#include "benchmarks/measure.h"
#include "normball/base/parallel.h"

namespace normball::benchmarks {
namespace {

void lmo(benchmark::State& state, const std::string& shape, const std::string& solver) {
  const auto [rows, cols] = parse_shape(shape);
  LmoTask task(rows, cols, parse_polar_solver(solver), default_threads());
  for (auto _ : state) task.run();
}

void step(benchmark::State& state, const std::string& model, const std::string& solver) {
  StepTask task(parameter_set(model), parse_polar_solver(solver), default_threads());
  task.run();
  for (auto _ : state) task.run();
}

void register_all() {
  for (const std::string solver : {"exact", "muon", "polar_express"}) {
    for (const std::string shape : {"16x16", "64x64", "64x576", "256x256", "256x2304", "512x512",
                                    "768x768", "768x3072", "3072x768", "2048x2048"}) {
      benchmark::RegisterBenchmark(("lmo/" + shape + "/" + solver).c_str(), lmo, shape, solver)
          ->UseRealTime();
    }
    for (const auto& set : parameter_sets()) {
      benchmark::RegisterBenchmark(("step/" + set.name + "/" + solver).c_str(), step, set.name,
                                   solver)
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace normball::benchmarks

int main(int argc, char** argv) {
  normball::benchmarks::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
