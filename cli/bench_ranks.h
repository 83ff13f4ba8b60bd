// `normball bench ranks`, in the program with LibTorch: what it is asked for, and its two halves.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace normball::cli {

void add_bench_ranks_command(CLI::App& bench);

struct BenchRanks {
  std::vector<std::string> cases;
  std::vector<int> ranks;
  int threads = 1;
  int rounds = 5;
  std::string solver = "damped";
  std::string python = "python3";
  std::string peer = "benchmarks/pytorch_ranks.py";
  bool alone = false;
  std::string requests;
  std::string json_file;

  bool simulate = false;
  std::vector<std::string> models;
  std::string lmo_file;
  double bandwidth = 10;  // GB/s
  double latency = 20;    // µs
  std::int64_t tokens = 8192;
  double flops = 0;  // GF/s of the passes; 0: what SGEMM reaches here
  double copy = 0;   // GB/s; 0: what copying reaches here
};

// Real ranks on this machine, beside one process and DDP.
void measure_ranks(const BenchRanks& options);
// One of those ranks: answers each line on standard input.
void serve_rank(const BenchRanks& options);
// On paper, for models and numbers of ranks beyond this machine.
void simulate_ranks(const BenchRanks& options);

}  // namespace normball::cli
