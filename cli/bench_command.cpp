// `normball bench`: LMOs by shape and solver, steps by model, beside the machine's limits.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "benchmarks/measure.h"
#include "cli/commands.h"
#include "cli/doctor_head.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "normball/base/error.h"
#include "normball/base/parallel.h"
#include "normball/base/text.h"
#include "normball/internal/kernels/kernels.h"

namespace normball::cli {
namespace {

using benchmarks::LmoTask;
using benchmarks::MachineLimits;
using benchmarks::StepTask;
using nlohmann::json;

struct Options {
  std::vector<std::string> shapes = {"64x64",   "64x576",   "256x256",  "256x2304", "512x512",
                                     "768x768", "768x3072", "3072x768", "2048x2048"};
  std::vector<std::string> solvers = {"exact", "muon", "polar_express"};
  std::vector<std::string> norms = {"sign", "rms", "row", "col"};
  std::vector<std::string> models = {"gpt2-124m", "airbench", "vit-base"};
  int threads = 0;
  int rounds = 5;
  std::string json_file;
  bool light = false;
  bool requests = false;
};

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {
    threads_ = options.threads > 0 ? options.threads : default_threads();
  }

  void run() {
    OutputFile file("bench", options_.json_file);
    std::cout << machine_head() << '\n';
    measure_limits();
    measure_lmos();
    measure_passes();
    measure_steps();
    if (beyond_limits_) {
      std::cout << "\nWhat is faster than its limit (below 1 × floor, above 100 %) shows that the "
                   "machine was busier while\nthe limits were measured than afterwards: measure "
                   "again when it is idle, or with more --rounds.\n";
    }
    file.write(result_.dump(2) + '\n');
    if (!options_.json_file.empty()) std::cout << "\nwritten to " << options_.json_file << '\n';
  }

 private:
  void measure_limits() {
    limits_ = benchmarks::measure_limits(threads_, options_.rounds);
    std::cout << "This machine with " << threads_ << (threads_ == 1 ? " thread" : " threads")
              << ", float32, best of " << options_.rounds << ": SGEMM "
              << printed("%.0f", limits_.sgemm_flops / 1e9) << " GF/s, memory copy "
              << printed("%.1f", limits_.copy_bytes / 1e9) << " GB/s, kernels " << kernel_variant()
              << ".\n";
    result_["threads"] = threads_;
    result_["rounds"] = options_.rounds;
    result_["sgemm_flops"] = limits_.sgemm_flops;
    result_["copy_bytes_per_second"] = limits_.copy_bytes;
    result_["kernels"] = kernel_variant();
  }

  void measure_lmos() {
    if (options_.shapes.empty()) return;
    std::cout << "\nSpectral LMO of a Gaussian matrix. The floor is SYRK plus one product at the "
                 "SGEMM rate;\nthe error is ‖QQᵀ − I‖_F / √n.\n\n";
    Table table({"shape", "solver", "time", "× floor", "error"});
    for (const auto& shape : options_.shapes) {
      const auto [rows, cols] = benchmarks::parse_shape(shape);
      for (const auto& solver : options_.solvers) {
        LmoTask task(rows, cols, parse_polar_solver(solver), threads_);
        const double seconds = benchmarks::best_seconds(options_.rounds, [&] { task.run(); });
        const double floor = task.floor_seconds(limits_), error = task.orthogonality_error();
        compare(floor / seconds);
        table.add({shape, solver, printed("%.3f ms", seconds * 1e3),
                   printed("%.2f", seconds / floor), printed("%.1e", error)});
        result_["lmo"].push_back({{"shape", shape},
                                  {"solver", solver},
                                  {"seconds", seconds},
                                  {"floor_seconds", floor},
                                  {"orthogonality_error", error}});
      }
    }
    table.print(std::cout);
  }

  void measure_passes() {
    if (options_.norms.empty()) return;
    std::cout << "\nA step on one 50304x768 layer whose LMO is not spectral: seven passes over "
                 "memory.\n\n";
    Table table({"norm", "time", "rate", "of the copy rate"});
    for (const auto& norm : options_.norms) {
      const Shape shape{.rows = 50304, .cols = 768};
      StepTask task({norm, "", {{.name = norm, .shape = shape, .norm = parse_norm(norm)}}},
                    ExactPolar{}, threads_);
      task.run();
      const double seconds = benchmarks::best_seconds(options_.rounds, [&] { task.run(); });
      const double rate = benchmarks::pass_bytes(shape) / seconds;
      compare(rate / limits_.copy_bytes);
      table.add({norm, printed("%.1f ms", seconds * 1e3), printed("%.1f GB/s", rate / 1e9),
                 printed("%.0f %%", 100 * rate / limits_.copy_bytes)});
      result_["passes"].push_back(
          {{"norm", norm}, {"seconds", seconds}, {"bytes_per_second", rate}});
    }
    table.print(std::cout);
  }

  void measure_steps() {
    if (options_.models.empty()) return;
    std::cout
        << "\nA whole step of Unconstrained ClippedScion. The floor adds one read and write of "
           "every\nbuffer at the copy rate; memory is the peak beyond weights and gradients.\n\n";
    Table table({"model", "solver", "time", "× floor", "memory"});
    for (const auto& model : options_.models) {
      for (const auto& solver : options_.solvers) {
        StepTask task(benchmarks::parameter_set(model), parse_polar_solver(solver), threads_,
                      options_.light);
        const double seconds =
            benchmarks::best_seconds(std::min(options_.rounds, 3), [&] { task.run(); });
        const double floor = task.floor_seconds(limits_);
        compare(floor / seconds);
        table.add({model, solver, printed("%.1f ms", seconds * 1e3),
                   printed("%.2f", seconds / floor),
                   printed("%.0f MiB", task.extra_bytes() / (1 << 20))});
        result_["step"].push_back({{"model", model},
                                   {"solver", solver},
                                   {"seconds", seconds},
                                   {"floor_seconds", floor},
                                   {"extra_bytes", task.extra_bytes()}});
      }
    }
    table.print(std::cout);
  }

  // A share of the machine's limit: a tenth above it is no longer noise.
  void compare(double share) { beyond_limits_ = beyond_limits_ || share > 1.1; }

  bool beyond_limits_ = false;
  Options options_;
  int threads_;
  MachineLimits limits_;
  json result_;
};

// A line in, a time out, so that another program can interleave its own measurements with ours:
//   lmo 768x3072 exact  |  step gpt2-124m exact  |  limits
void serve_requests(int threads) {
  std::string previous, line;
  std::unique_ptr<LmoTask> lmo;
  std::unique_ptr<StepTask> step;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string kind, what, solver = "exact";
    words >> kind >> what >> solver;
    const auto once = [](const std::function<void()>& body) {
      return benchmarks::best_seconds(1, body);
    };
    const bool again = line == previous;
    previous = line;
    if (kind == "limits") {
      const auto limits = benchmarks::measure_limits(threads, 5);
      std::cout << limits.sgemm_flops << ' ' << limits.copy_bytes << std::endl;
    } else if (kind == "lmo") {
      benchmarks::require_memory_for(what);
      const auto [rows, cols] = benchmarks::parse_shape(what);
      if (!again) lmo = std::make_unique<LmoTask>(rows, cols, parse_polar_solver(solver), threads);
      std::cout << once([&] { lmo->run(); }) << std::endl;
    } else if (kind == "step") {
      if (!again) {
        step.reset();
        step = std::make_unique<StepTask>(benchmarks::parameter_set(what),
                                          parse_polar_solver(solver), threads);
        step->run();
      }
      std::cout << once([&] { step->run(); }) << std::endl;
    } else {
      throw_invalid("bench", "a request is 'lmo <rows>x<cols> [solver]', 'step <model> [solver]' ",
                    "or 'limits', got '", line, "'");
    }
  }
}

// `bench train` has options of its own; what stands before it would have no effect.
void require_no_options(const CLI::App& bench) {
  for (const auto* option : bench.get_options()) {
    if (option->count() == 0) continue;
    throw CLI::ValidationError(option->get_name(), "is an option of `normball bench`; those of `" +
                                                       bench.get_subcommands()[0]->get_name() +
                                                       "` follow that word");
  }
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* bench = app.add_subcommand("bench", "Measure LMOs and optimizer steps on this machine");
  auto* shape =
      bench->add_option("--shape", options->shapes, "Matrices, e.g. 768x3072; several allowed")
          ->check(read_by(benchmarks::require_memory_for))
          ->capture_default_str();
  auto* solver =
      bench->add_option("--solver", options->solvers, "Polar solvers, e.g. exact muon svd")
          ->check(read_by(parse_polar_solver))
          ->capture_default_str();
  auto* model = bench->add_option("--model", options->models, "Parameter sets for whole steps")
                    ->check(read_by(benchmarks::parameter_set))
                    ->capture_default_str();
  auto* norm = bench->add_option("--norm", options->norms, "Norms for the memory passes")
                   ->check(read_by([](const std::string& text) { parse_norm(text); }))
                   ->capture_default_str();
  auto* no_lmo = bench->add_flag_callback(
      "--no-lmo", [options] { options->shapes.clear(); }, "Leave LMOs out");
  auto* no_pass = bench->add_flag_callback(
      "--no-pass", [options] { options->norms.clear(); }, "Leave passes out");
  auto* no_step = bench->add_flag_callback(
      "--no-step", [options] { options->models.clear(); }, "Leave steps out");
  auto* light =
      bench->add_flag("--light", options->light, "Steps without state, in the light form");
  no_lmo->excludes(shape);
  no_pass->excludes(norm);
  no_step->excludes(model)->excludes(light);
  bench->add_option("--threads", options->threads, "Threads; 0: OpenMP's default")
      ->check(integer_in(0, 4096))
      ->capture_default_str();
  auto* rounds =
      bench->add_option("--rounds", options->rounds, "Number of timings; the best counts")
          ->check(integer_in(1, 1'000'000))
          ->capture_default_str();
  auto* json_file =
      bench->add_option("--json", options->json_file, "Also write the results to this file");
  auto* requests = bench->add_flag(
      "--requests", options->requests,
      "Read 'lmo <shape> [solver]', 'step <model> [solver]' or 'limits' from standard "
      "input and answer each with a time in seconds");
  for (auto* other :
       {shape, solver, model, norm, no_lmo, no_pass, no_step, light, rounds, json_file}) {
    requests->excludes(other);
  }
  bench->parse_complete_callback([bench] {  // before `train` begins
    if (!bench->get_subcommands().empty()) require_no_options(*bench);
  });
  bench->callback([bench, options] {
    if (!bench->get_subcommands().empty()) return;
    if (options->requests) {
      serve_requests(options->threads > 0 ? options->threads : default_threads());
    } else {
      Bench(*options).run();
    }
  });
}

}  // namespace normball::cli
