// What the LibTorch adapter costs beside the core: steps of both in turn, on the same memory.
//   adapter_benchmark [MODEL] [ROUNDS]       (gpt2-124m, 5)
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>

#include "benchmarks/parameter_sets.h"
#include "normball/optimizer.h"
#include "normball_torch/norm_ball.h"

namespace {

using normball::Parameter;

template <class Body>
double seconds(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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
  std::vector<double> core_times, adapter_times, ratios;
  for (int round = 0; round < rounds; ++round) {
    // Each goes first in turn, so that a machine that slows down favours neither.
    if (round % 2 == 0) core_times.push_back(seconds(core_step));
    adapter_times.push_back(seconds(adapter_step));
    if (round % 2 == 1) core_times.push_back(seconds(core_step));
    ratios.push_back(adapter_times.back() / core_times.back());
  }
  std::ranges::sort(ratios);
  const double best_core = std::ranges::min(core_times);
  const double best_adapter = std::ranges::min(adapter_times);
  std::printf("%s: core %.4f s, adapter %.4f s, ratio %.3f (best of %d); median ratio %.3f\n",
              model.c_str(), best_core, best_adapter, best_adapter / best_core, rounds,
              ratios[ratios.size() / 2]);
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
