// ClippedScion in a LibTorch training loop: a small convolutional network learns to tell four
// textures apart (stripes in four directions under noise), made on the fly.
#include <normball_torch/clipped_scion.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

struct NetImpl : torch::nn::Module {
  NetImpl() {
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 5)));
    conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3)));
    head = register_module("head", torch::nn::Linear(32, 4));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1->forward(x)), 2);
    x = torch::relu(conv2->forward(x)).mean({2, 3});
    return head->forward(x);
  }
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Net);

// Images (n, 1, 16, 16) and their classes.
std::pair<torch::Tensor, torch::Tensor> make_batch(int64_t n) {
  const auto labels = torch::randint(4, {n}, torch::kLong);
  const auto angle = labels.to(torch::kFloat32).view({n, 1, 1, 1}) * (M_PI / 4);
  const auto x = torch::arange(16.0f).view({1, 1, 1, 16}), y = x.transpose(2, 3);
  const auto phase = 2 * M_PI * torch::rand({n, 1, 1, 1});
  const auto stripes = torch::sin(1.5 * (x * torch::cos(angle) + y * torch::sin(angle)) + phase);
  return {stripes + torch::randn({n, 1, 16, 16}), labels};
}

int main() {
  torch::manual_seed(1);
  Net net;
  // lr is the longest step relative to the balls; radii are the balls' sizes by role.
  const normball::RoleRadii radii{.input = 5, .hidden = 5, .output = 50, .bias = 1};
  normball::optim::ClippedScion optimizer(
      *net, normball::optim::ClippedScionOptions(0.03).alpha(0.3).rho(0.5).radii(radii));
  std::printf("%s", optimizer.explain(*net).c_str());  // which norm each parameter has, and why
  torch::optim::StepLR scheduler(optimizer, /*step_size=*/100, /*gamma=*/0.3);

  for (int step = 0; step < 200; ++step) {
    const auto [images, labels] = make_batch(64);
    optimizer.zero_grad();
    const auto loss = torch::cross_entropy_loss(net->forward(images), labels);
    loss.backward();
    optimizer.step();
    scheduler.step();
    const auto& report = optimizer.report();
    if (step % 20 == 0) {
      std::printf("step %3d  loss %.3f  s %6.2f  eta %.2f%s\n", step, loss.item<double>(),
                  report.pairing, report.eta, report.clipped ? "  clipped" : "");
    }
  }

  const auto [images, labels] = make_batch(512);
  const double accuracy =
      net->forward(images).argmax(1).eq(labels).to(torch::kFloat32).mean().item<double>();
  std::printf("accuracy %.3f\n", accuracy);
  return accuracy > 0.95 ? 0 : 1;
}
