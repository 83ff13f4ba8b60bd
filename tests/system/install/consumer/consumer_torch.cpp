// One step through the installed adapter: w − lr sign(g).
#include <normball_torch/clipped_scion.h>

#include <cstdio>

int main() {
  auto w = torch::ones({3}).set_requires_grad(true);
  w.mutable_grad() = torch::tensor({2.0f, -3.0f, 0.0f});
  normball::optim::Scion optimizer(std::vector<torch::Tensor>{w},
                                   normball::optim::ScionOptions(0.25).norm("sign"));
  optimizer.step();
  const bool right = torch::equal(w.detach(), torch::tensor({0.75f, 1.25f, 1.0f}));
  std::printf("normball::torch: s = %g, %s\n", optimizer.report().pairing, right ? "ok" : "wrong");
  return right && optimizer.report().pairing == 5 ? 0 : 1;
}
