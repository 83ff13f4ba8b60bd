// The command line of `normball bench ranks`.
#include <memory>

#include "benchmarks/parameter_sets.h"
#include "benchmarks/ranks_task.h"
#include "cli/bench_ranks.h"
#include "cli/options.h"
#include "normball/polar.h"

namespace normball::cli {

void add_bench_ranks_command(CLI::App& bench) {
  auto options = std::make_shared<BenchRanks>();
  for (const auto name : benchmarks::RanksTask::cases()) options->cases.emplace_back(name);
  for (const auto& set : benchmarks::shape_sets()) options->models.push_back(set.name);
  const std::vector<std::string> cases = options->cases, models = options->models;
  auto* ranks = bench.add_subcommand(
      "ranks", "Measure steps on several local ranks, or forecast them for many (--simulate)");
  ranks
      ->add_option("--ranks", options->ranks,
                   "How many, several numbers allowed; default: 2, to simulate 8 64 256 1024")
      ->check(integer_in(1, 4096));
  ranks->add_option("--threads", options->threads, "Threads of each rank")
      ->check(integer_in(1, 4096))
      ->capture_default_str();
  ranks->add_option("--rounds", options->rounds, "Number of timings; the best counts")
      ->check(integer_in(1, 1'000'000))
      ->capture_default_str();
  ranks->add_option("--solver", options->solver, "Our polar solver, e.g. exact, damped, muon")
      ->check(read_by(parse_polar_solver))
      ->capture_default_str();
  ranks->add_option("--json", options->json_file, "Also write the results to this file");
  auto* simulate =
      ranks->add_flag("--simulate", options->simulate, "Forecast instead of measuring");
  auto* model = ranks->add_option("--model", options->models, "What to simulate; several allowed")
                    ->check(CLI::IsMember(models))
                    ->capture_default_str();
  auto* file = ranks->add_option("--lmo", options->lmo_file,
                                 "LMO times that `normball bench --json` wrote, here or elsewhere");
  const auto simulated = [&](const char* name, double& value, const char* help) {
    return ranks->add_option(name, value, help)
        ->check(number_in({.low = 1e-6, .high = 1e9}))
        ->needs(simulate);
  };
  simulated("--bandwidth", options->bandwidth, "GB/s that a rank sends, and receives at once")
      ->capture_default_str();
  ranks->add_option("--latency", options->latency, "Microseconds of a message")
      ->check(number_in({.low = 0, .high = 1e9}))
      ->needs(simulate)
      ->capture_default_str();
  simulated("--flops", options->flops, "GF/s of the passes; default: what SGEMM reaches here");
  simulated("--copy", options->copy, "GB/s of memory; default: what copying reaches here");
  ranks->add_option("--tokens", options->tokens, "Tokens in a rank's part of the batch")
      ->check(integer_in(1, 1'000'000'000))
      ->needs(simulate)
      ->capture_default_str();
  model->needs(simulate);
  file->needs(simulate);
  auto* which = ranks->add_option("--case", options->cases, "What to measure; several allowed")
                    ->check(CLI::IsMember(cases))
                    ->capture_default_str();
  auto* python = ranks->add_option("--python", options->python, "The interpreter that has PyTorch")
                     ->capture_default_str();
  auto* peer = ranks->add_option("--peer", options->peer, "The script with the PyTorch side")
                   ->capture_default_str();
  auto* alone = ranks->add_flag("--alone", options->alone, "Without PyTorch");
  auto* requests = ranks
                       ->add_option("--requests", options->requests,
                                    "One rank only: answer 'step' and 'link' on standard input")
                       ->check(CLI::IsMember(cases));
  alone->excludes(python)->excludes(peer);
  for (auto* other : {which, python, peer, alone, requests}) simulate->excludes(other);
  ranks->callback([options] {
    if (options->ranks.empty()) {
      options->ranks = options->simulate ? std::vector{8, 64, 256, 1024} : std::vector{2};
    }
    if (options->simulate) {
      simulate_ranks(*options);
    } else if (!options->requests.empty()) {
      serve_rank(*options);
    } else {
      measure_ranks(*options);
    }
  });
}

}  // namespace normball::cli
