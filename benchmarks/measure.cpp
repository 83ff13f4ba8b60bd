#include "benchmarks/measure.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <omp.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "normball/base/error.h"
#include "normball/base/parallel.h"
#include "normball/internal/kernels/blas.h"
#include "normball/optimizer.h"

namespace normball::benchmarks {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<float> gaussian(Index size, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

// A field of /proc/self/status, e.g. VmHWM (peak resident memory), or /proc/meminfo, in bytes; 0 if
// there is none.
double file_bytes(const char* file, const std::string& field) {
  std::ifstream status(file);
  for (std::string name; status >> name; status.ignore(1 << 10, '\n')) {
    if (double kilobytes = 0; name == field + ":" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

double status_bytes(const std::string& field) { return file_bytes("/proc/self/status", field); }

void reset_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

// What was freed stays resident in the heap: it would be taken again and not count as new.
void return_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

double polar_flops(Index rows, Index cols) {
  const double n = static_cast<double>(std::min(rows, cols));
  return 3 * n * n * static_cast<double>(std::max(rows, cols));
}

// A product at the full speed of all threads.
class SgemmTask {
 public:
  static constexpr Index n = 1536;
  static constexpr double flops = 2.0 * n * n * n;

  explicit SgemmTask(int threads) : saved_threads_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ~SgemmTask() { omp_set_num_threads(saved_threads_); }
  SgemmTask(const SgemmTask&) = delete;
  SgemmTask& operator=(const SgemmTask&) = delete;

  void run() {
    blas::gemm<float>(1, ConstMatrixView<float>(a_.data(), n, n), blas::Op::None,
                      ConstMatrixView<float>(b_.data(), n, n), blas::Op::None, 0,
                      MatrixView<float>(c_.data(), n, n));
  }

 private:
  int saved_threads_;
  std::vector<float> a_ = gaussian(n * n, 1), b_ = gaussian(n * n, 2);
  std::vector<float> c_ = std::vector<float>(a_.size());
};

}  // namespace

double time_once(const std::function<void()>& body) {
  const double start = now();
  body();
  return now() - start;
}

double peak_bytes() { return status_bytes("VmHWM"); }

double best_seconds(int rounds, const std::function<void()>& body) {
  constexpr double shortest_round = 0.02;
  constexpr double long_body = 3;  // seconds: long enough to average over the noise
  const double first = time_once(body);
  const int repeats = std::max(1, static_cast<int>(shortest_round / std::max(first, 1e-9)));
  if (first > long_body) return first;
  double best = repeats == 1 ? first : HUGE_VAL;
  for (int round = repeats == 1 ? 1 : 0; round < rounds; ++round) {
    best = std::min(best, time_once([&] {
                            for (int i = 0; i < repeats; ++i) body();
                          }) / repeats);
  }
  return best;
}

double sustained_sgemm(int threads, double seconds) {
  SgemmTask task(threads);
  double done = 0;
  const double start = now();
  do {
    task.run();
    done += SgemmTask::flops;
  } while (now() - start < seconds);
  return done / (now() - start);
}

MachineLimits measure_limits(int threads, int rounds) {
  MachineLimits limits;
  {
    SgemmTask task(threads);
    limits.sgemm_flops = SgemmTask::flops / best_seconds(rounds, [&] { task.run(); });
  }

  constexpr Index megabytes = 64;
  const std::vector<char> from(megabytes << 20, 1);
  std::vector<char> to(from.size());
  const double copying = best_seconds(rounds, [&] {
    parallel_for(megabytes, threads,
                 [&](Index i, int) { std::memcpy(&to[i << 20], &from[i << 20], 1 << 20); });
  });
  limits.copy_bytes = 2.0 * static_cast<double>(from.size()) / copying;
  return limits;
}

LmoTask::LmoTask(Index rows, Index cols, PolarSolver solver, int threads)
    : solver_(std::move(solver)),
      threads_(threads),
      rows_(rows),
      cols_(cols),
      x_(gaussian(rows * cols, 7)),
      q_(x_.size()) {
  run();
}

void LmoTask::run() {
  polar<float>(solver_, {x_.data(), rows_, cols_}, {q_.data(), rows_, cols_}, workspace_, nullptr,
               threads_);
}

double LmoTask::orthogonality_error() {
  return polar_error<float>({x_.data(), rows_, cols_}, {q_.data(), rows_, cols_}, workspace_)
      .orthogonality;
}

double LmoTask::floor_seconds(const MachineLimits& limits) const {
  return polar_flops(rows_, cols_) / limits.sgemm_flops;
}

struct StepTask::Impl {
  std::vector<Layer> layers;
  std::vector<std::vector<float>> weights, gradients;
  std::vector<Parameter<float>> parameters;
  std::unique_ptr<Optimizer<float>> optimizer;
  double bytes_before = 0;
};

StepTask::StepTask(const ParameterSet& set, const PolarSolver& solver, int threads, bool light)
    : impl_(std::make_unique<Impl>()) {
  impl_->layers = set.layers;
  std::uint64_t seed = 0;
  for (auto& layer : impl_->layers) {
    if (auto* spectral = std::get_if<Spectral>(&layer.norm)) spectral->solver = solver;
    impl_->weights.push_back(gaussian(layer.shape.size(), ++seed));
    impl_->gradients.push_back(gaussian(layer.shape.size(), ++seed));
  }
  for (size_t l = 0; l < impl_->layers.size(); ++l) {
    const Shape& shape = impl_->layers[l].shape;
    impl_->parameters.push_back({{impl_->weights[l].data(), shape.rows, shape.cols},
                                 {impl_->gradients[l].data(), shape.rows, shape.cols}});
  }
  return_freed_memory();
  reset_peak();
  impl_->bytes_before = status_bytes("VmRSS");
  impl_->optimizer = std::make_unique<Optimizer<float>>(
      unconstrained_clipped_scion(0.00036, 0.1, 600), impl_->layers,
      Execution{.threads = threads, .overwrite_gradients = !light, .light = light});
}

StepTask::~StepTask() = default;

void StepTask::run() { impl_->optimizer->step(impl_->parameters); }

double StepTask::floor_seconds(const MachineLimits& limits) const {
  double seconds = 0;
  for (const auto& layer : impl_->layers) {
    const double bytes = static_cast<double>(layer.shape.size()) * sizeof(float);
    seconds += 3 * 2 * bytes / limits.copy_bytes;  // gradient, average and weight
    if (std::holds_alternative<Spectral>(layer.norm)) {
      seconds += polar_flops(layer.shape.rows, layer.shape.cols) / limits.sgemm_flops;
    }
  }
  return seconds;
}

double StepTask::extra_bytes() const { return peak_bytes() - impl_->bytes_before; }

double pass_bytes(const Shape& shape) {
  return 7 * static_cast<double>(shape.size()) * sizeof(float);
}

std::pair<Index, Index> parse_shape(std::string_view text) {
  const auto cross = text.find('x');
  Index sides[2] = {0, 0};
  const std::string_view parts[2] = {text.substr(0, cross),
                                     cross == text.npos ? "" : text.substr(cross + 1)};
  for (int i = 0; i < 2; ++i) {
    const auto& part = parts[i];
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), sides[i]);
    if (error != std::errc() || end != part.data() + part.size() || sides[i] < 1) {
      throw_invalid("parse_shape", "a shape is <rows>x<cols>, for example 768x3072, got '", text,
                    "'");
    }
  }
  return {sides[0], sides[1]};
}

void require_memory_for(std::string_view shape) {
  const auto [rows, cols] = parse_shape(shape);
  // The matrix, its LMO and a workspace of the smaller side's square, which products pack as well.
  const auto n = static_cast<double>(std::min(rows, cols)),
             m = static_cast<double>(std::max(rows, cols));
  const double needed = sizeof(float) * (2 * n * m + 2 * n * n);
  const double free = file_bytes("/proc/meminfo", "MemAvailable");
  if (free == 0 || needed <= free) return;
  constexpr double gibibyte = 1 << 30;
  std::ostringstream text;
  text << std::setprecision(3) << needed / gibibyte << " GiB, and " << free / gibibyte;
  throw_invalid("bench", "an LMO of ", shape, " takes ", text.str(),
                " GiB are free; take a smaller shape");
}

}  // namespace normball::benchmarks
