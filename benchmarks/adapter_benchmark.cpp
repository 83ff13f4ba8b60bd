// What the LibTorch adapter costs beside the core: steps of both in turn, on the same memory.
//   adapter_benchmark [MODEL] [ROUNDS]       (gpt2-124m, 5)
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <string>

#include "benchmarks/parameter_sets.h"
#include "normball/optimizer.h"
#include "normball_torch/norm_ball.h"

namespace {

using normball::Parameter;

// The clock's and the process's seconds: on a busy machine only the latter say much.
struct Times {
  std::vector<double> wall = {}, cpu = {};

  template <class Body>
  void measure(const Body& body) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu_start = std::clock();
    body();
    cpu.push_back(static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC);
    wall.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
};

void print(const char* what, const std::vector<double>& core, const std::vector<double>& adapter) {
  std::vector<double> ratios(core.size());
  for (size_t i = 0; i < core.size(); ++i) ratios[i] = adapter[i] / core[i];
  std::ranges::sort(ratios);
  const double best_core = std::ranges::min(core), best_adapter = std::ranges::min(adapter);
  std::printf("  %s: core %.4f s, adapter %.4f s, ratio %.3f (best of %zu); median ratio %.3f\n",
              what, best_core, best_adapter, best_adapter / best_core, core.size(),
              ratios[ratios.size() / 2]);
}

void run(const std::string& model, int rounds) {
  const auto& layers = normball::benchmarks::parameter_set(model).layers;
  torch::manual_seed(1);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  std::vector<Parameter<float>> parameters;
  for (const auto& layer : layers) {
    // The flattened shape: a convolution's scale differs, its cost does not.
    const auto& [rows, cols, kernel, rank] = layer.shape;
    const auto w = torch::randn({rows, cols}).set_requires_grad(true);
    w.mutable_grad() = torch::randn({rows, cols});
    parameters.push_back(
        {{w.data_ptr<float>(), rows, cols}, {w.grad().data_ptr<float>(), rows, cols}});
    groups.push_back({{w},
                      std::make_unique<normball::optim::NormBallOptions>(
                          normball::optim::NormBallOptions()
                              .norm(normball::to_string(layer.norm))
                              .radius(layer.radius)
                              .names({layer.name}))});
  }
  constexpr double lr = 0.00036, alpha = 0.1, rho = 600;
  normball::Optimizer<float> core(normball::unconstrained_clipped_scion(lr, alpha, rho), layers);
  normball::optim::NormBall adapter(groups, "unconstrained_clipped_scion",
                                    normball::optim::NormBallOptions(lr).alpha(alpha).rho(rho));

  const auto core_step = [&] { core.step(parameters); };
  const auto adapter_step = [&] { adapter.step(); };
  core_step();
  adapter_step();
  Times core_times, adapter_times;
  for (int round = 0; round < rounds; ++round) {
    // Each goes first in turn, so that a machine that slows down favours neither.
    if (round % 2 == 0) core_times.measure(core_step);
    adapter_times.measure(adapter_step);
    if (round % 2 == 1) core_times.measure(core_step);
  }
  std::printf("%s\n", model.c_str());
  print("wall", core_times.wall, adapter_times.wall);
  print("cpu ", core_times.cpu, adapter_times.cpu);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "gpt2-124m", argc > 2 ? std::max(1, std::stoi(argv[2])) : 5);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "adapter_benchmark: %s\n", error.what());
    return 1;
  }
}
