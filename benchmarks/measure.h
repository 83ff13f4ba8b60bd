// What `normball bench` measures: the machine's limits, single LMOs, and whole steps.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benchmarks/parameter_sets.h"
#include "normball/polar.h"

namespace normball::benchmarks {

// The best of `rounds` timings in seconds; short bodies are repeated within a round, those of
// several seconds run once.
double best_seconds(int rounds, const std::function<void()>& body);

double time_once(const std::function<void()>& body);

// The most memory this process has had resident.
double peak_bytes();

// The rates that nothing on this machine can beat, with the given number of threads.
struct MachineLimits {
  double sgemm_flops = 0;  // float multiply-adds count as two
  double copy_bytes = 0;   // read plus written bytes a second
};
MachineLimits measure_limits(int threads, int rounds);

// The rate of float products one after another for this long, in flops a second: on a shared
// machine less than the best of short ones, and what work of that length can be compared with.
double sustained_sgemm(int threads, double seconds);

// One spectral LMO of a random Gaussian matrix.
class LmoTask {
 public:
  LmoTask(Index rows, Index cols, PolarSolver solver, int threads);
  void run();
  double orthogonality_error();  // of the last result
  // SYRK for the Gram matrix and one product, 3 n² m flops: no exact method does less.
  double floor_seconds(const MachineLimits& limits) const;

 private:
  PolarSolver solver_;
  int threads_;
  Index rows_, cols_;
  std::vector<float> x_, q_;
  Workspace workspace_;
};

// One step of Unconstrained ClippedScion on random gradients.
class StepTask {
 public:
  StepTask(const ParameterSet& set, const PolarSolver& solver, int threads, bool light = false);
  ~StepTask();
  StepTask(const StepTask&) = delete;
  StepTask& operator=(const StepTask&) = delete;
  void run();
  // The LMOs' floors at the SGEMM rate, and one read and write of every buffer at the copy rate.
  double floor_seconds(const MachineLimits& limits) const;
  // Peak resident memory since the start, beyond weights and gradients.
  double extra_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The bytes a step moves on a layer whose direction is not stored: the gradient is read for the
// check and for the average, which is read, written and read again; the weight is read and written.
double pass_bytes(const Shape& shape);

// "768x3072" -> (768, 3072)
std::pair<Index, Index> parse_shape(std::string_view text);
// Throws std::invalid_argument where a matrix of that shape and its LMO do not fit into the memory
// that is free: a kernel that promises more than it has would end the process.
void require_memory_for(std::string_view shape);

}  // namespace normball::benchmarks
