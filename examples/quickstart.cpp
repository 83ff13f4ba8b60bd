// ClippedScion on raw buffers: two layers W1 (4x3) and W2 (2x4) learn ½‖W2 W1 − A‖².
#include <algorithm>
#include <cstdio>
#include <vector>

#include "normball/normball.h"

int main() {
  constexpr int out = 2, hidden = 4, in = 3;
  const float target[out * in] = {1, 2, 0, -1, 0.5, 1};
  std::vector<float> w1(hidden * in), w2(out * hidden), g1(w1.size()), g2(w2.size());

  // A norm and a radius for each layer: the constrained method keeps the weights in these balls.
  const std::vector<normball::Layer> layers = {
      {.name = "w1", .shape = {hidden, in}, .norm = normball::Spectral{}, .radius = 4},
      {.name = "w2", .shape = {out, hidden}, .norm = normball::Sign{}, .radius = 8}};
  const std::vector<normball::Parameter<float>> parameters = {
      {{w1.data(), hidden, in}, {g1.data(), hidden, in}},
      {{w2.data(), out, hidden}, {g2.data(), out, hidden}}};
  normball::Random random(1);
  for (size_t l = 0; l < layers.size(); ++l) {
    normball::initialize(layers[l].norm, layers[l].shape, 1, parameters[l].weight, random);
  }

  // lr is the longest step relative to the balls, alpha the weight of the newest gradient.
  normball::Optimizer<float> optimizer(
      normball::clipped_scion(/*lr=*/0.05, /*alpha=*/0.9, /*rho=*/10), layers);
  float loss = 0;
  for (int step = 0; step <= 40; ++step) {
    loss = 0;
    std::ranges::fill(g1, 0.0f);
    std::ranges::fill(g2, 0.0f);
    for (int i = 0; i < out; ++i) {
      for (int j = 0; j < in; ++j) {
        float residual = -target[i * in + j];
        for (int k = 0; k < hidden; ++k) residual += w2[i * hidden + k] * w1[k * in + j];
        loss += residual * residual / 2;
        for (int k = 0; k < hidden; ++k) {
          g2[i * hidden + k] += residual * w1[k * in + j];
          g1[k * in + j] += residual * w2[i * hidden + k];
        }
      }
    }
    const auto& report = optimizer.step(parameters);
    if (step % 10 == 0) std::printf("step %2d  loss %.2e  s %.2e\n", step, loss, report.pairing);
  }
  return loss < 1e-6f ? 0 : 1;
}
