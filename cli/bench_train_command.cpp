// `normball bench train`: training steps, in turn with the same ones in PyTorch.
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "benchmarks/line_process.h"
#include "benchmarks/measure.h"
#include "benchmarks/training_task.h"
#include "cli/commands.h"
#include "cli/doctor_head.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "normball/base/error.h"
#include "normball/base/parallel.h"
#include "normball/base/text.h"
#include "normball/polar.h"
#include "trainer/runtime/tensor_memory.h"
#include "trainer/runtime/threads.h"

namespace normball::cli {
namespace {

using benchmarks::LineProcess;
using benchmarks::TrainingTask;
using nlohmann::json;

struct Options {
  std::vector<std::string> cases;
  int threads = 0;
  int rounds = 11;
  std::string solver = "damped";
  std::string python = "python3";
  std::string peer = "benchmarks/pytorch_training.py";
  bool alone = false;
  std::string requests;
  std::string json_file;
};

// One side of the comparison: a process of its own, so that its memory can be told.
class Side {
 public:
  explicit Side(std::vector<std::string> command) : process_(std::move(command)) {}

  void step() {
    std::istringstream answer(process_.ask("step"));
    double seconds = 0, passes = 0;
    answer >> seconds >> bytes_ >> passes >> flops_;
    seconds_ = std::min(seconds_, seconds);
    passes_ = std::min(passes_, passes);
  }
  double seconds() const { return seconds_; }
  double bytes() const { return bytes_; }
  double flops_per_second() const { return flops_ / passes_; }
  double passes() const { return passes_; }

 private:
  LineProcess process_;
  double seconds_ = HUGE_VAL, passes_ = HUGE_VAL, bytes_ = 0, flops_ = 0;
};

// The answers to one side's requests: seconds of a step, peak bytes; then seconds and flops of the
// passes, which the other side need not tell.
void serve(const Options& options) {
  trainer::runtime::use_threads(options.threads);
  trainer::runtime::keep_tensor_memory();
  TrainingTask task(options.requests, options.threads, options.solver);
  for (std::string line; std::getline(std::cin, line);) {
    const auto [passes, optimizer] = task.run();
    std::cout << passes + optimizer << ' ' << benchmarks::peak_bytes() << ' ' << passes << ' '
              << task.flops() << std::endl;
  }
}

json measure(const std::string& name, const Options& options, Table& table) {
  const auto threads = std::to_string(options.threads);
  Side ours({"/proc/self/exe", "bench", "train", "--requests", name, "--threads", threads,
             "--solver", options.solver});
  std::unique_ptr<Side> theirs;
  if (!options.alone) {
    theirs = std::make_unique<Side>(
        std::vector<std::string>{options.python, options.peer, name, "--threads", threads});
  }
  double sgemm = 0;
  for (int round = 0; round < options.rounds; ++round) {
    ours.step();
    if (theirs) theirs->step();
    sgemm = std::max(sgemm, benchmarks::sustained_sgemm(options.threads, ours.passes()));
  }
  constexpr double mebibyte = 1 << 20;
  const double rate = ours.flops_per_second();
  json result = {{"case", name},
                 {"seconds", ours.seconds()},
                 {"passes_seconds", ours.passes()},
                 {"passes_flops_per_second", rate},
                 {"sgemm_flops_per_second", sgemm},
                 {"peak_bytes", ours.bytes()}};
  std::vector<std::string> row = {name,
                                  printed("%.0f ms", ours.seconds() * 1e3),
                                  printed("%.0f ms", ours.passes() * 1e3),
                                  printed("%.0f GF/s", rate / 1e9),
                                  printed("%.0f %%", 100 * rate / sgemm),
                                  printed("%.0f MiB", ours.bytes() / mebibyte)};
  if (theirs) {
    row.insert(row.end(), {printed("%.0f ms", theirs->seconds() * 1e3),
                           printed("%.0f MiB", theirs->bytes() / mebibyte),
                           printed("%.2f", theirs->seconds() / ours.seconds()),
                           printed("%.2f", ours.bytes() / theirs->bytes())});
    result["pytorch_seconds"] = theirs->seconds();
    result["pytorch_peak_bytes"] = theirs->bytes();
  }
  table.add(std::move(row));
  return result;
}

void compare(Options options) {
  if (!options.alone && !std::filesystem::exists(options.peer)) {
    throw_invalid("bench train", "no '", options.peer,
                  "' here; run from the source directory, name it with --peer, or leave "
                  "PyTorch out with --alone");
  }
  OutputFile file("bench train", options.json_file);
  std::cout << machine_head() << '\n';
  std::cout << "Training steps with " << options.threads
            << (options.threads == 1 ? " thread" : " threads") << ", float32, best of "
            << options.rounds << (options.alone ? "" : ", in turn with PyTorch's")
            << "; polar factors: " << options.solver
            << ".\nThe rate is that of the passes (forward and backward); memory is the process's "
               "peak.\n"
            << std::endl;
  std::vector<std::string> header = {"model", "step", "passes", "rate", "of SGEMM", "memory"};
  if (!options.alone) {
    header.insert(header.end(), {"PyTorch", "its memory", "times faster", "memory ratio"});
  }
  Table table(header);
  json results = {
      {"threads", options.threads}, {"rounds", options.rounds}, {"solver", options.solver}};
  for (const auto& name : options.cases) {
    std::cerr << "measuring " << name << '\n';
    results["steps"].push_back(measure(name, options, table));
  }
  table.print(std::cout);
  file.write(results.dump(2) + '\n');
  if (!options.json_file.empty()) std::cout << "\nwritten to " << options.json_file << '\n';
}

}  // namespace

void add_bench_train_command(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  for (const auto name : TrainingTask::cases()) options->cases.emplace_back(name);
  auto* train = bench.add_subcommand("train", "Measure training steps beside PyTorch's");
  train->add_option("--case", options->cases, "Models; several allowed")
      ->check(CLI::IsMember(options->cases))
      ->capture_default_str();
  train->add_option("--threads", options->threads, "Threads; 0: OpenMP's default")
      ->check(integer_in(0, 4096))
      ->capture_default_str();
  train->add_option("--rounds", options->rounds, "Number of timings; the best counts")
      ->check(integer_in(1, 1'000'000))
      ->capture_default_str();
  train->add_option("--solver", options->solver, "Our polar solver, e.g. exact, damped, muon")
      ->check(read_by(parse_polar_solver))
      ->capture_default_str();
  auto* python = train->add_option("--python", options->python, "The interpreter that has PyTorch")
                     ->capture_default_str();
  auto* peer = train->add_option("--peer", options->peer, "The script with the PyTorch side")
                   ->capture_default_str();
  train->add_flag("--alone", options->alone, "Without PyTorch")->excludes(python)->excludes(peer);
  train->add_option("--json", options->json_file, "Also write the results to this file");
  train
      ->add_option("--requests", options->requests,
                   "One side only: take a step of this case for every line on standard input")
      ->check(CLI::IsMember(options->cases));
  train->callback([options] {
    if (options->threads == 0) options->threads = default_threads();
    if (options->requests.empty()) {
      compare(*options);
    } else {
      serve(*options);
    }
  });
}

}  // namespace normball::cli
