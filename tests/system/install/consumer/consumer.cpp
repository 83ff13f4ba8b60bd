// One step through the installed headers and library: W − lr UVᵀ of a diagonal gradient.
#include <normball/normball.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  std::vector<double> w(4, 1.0), g = {3, 0, 0, -4};
  normball::Optimizer<double> optimizer(normball::clipped_spectral(/*lr=*/0.5, /*rho=*/1),
                                        {{.name = "w", .shape = {.rows = 2, .cols = 2}}});
  const std::vector<normball::Parameter<double>> parameters = {
      {{w.data(), 2, 2}, {g.data(), 2, 2}}};
  const auto& report = optimizer.step(parameters);
  const double expected[] = {0.5, 1, 1, 1.5};
  double error = std::abs(report.pairing - 7);
  for (size_t i = 0; i < 4; ++i) error += std::abs(w[i] - expected[i]);
  std::printf("normball %s: error %g\n", normball_version(), error);
  return error < 1e-12 ? 0 : 1;
}
