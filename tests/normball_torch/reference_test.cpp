// The core, the adapter and its tensor path against plain PyTorch: every method, 200 steps.
#include "reference.h"

#include <gtest/gtest.h>

#include <set>

#include "normball/normball.h"
#include "normball_torch/clipped_scion.h"

namespace {

using normball::optim::NormBall;
using normball::optim::NormBallOptions;
using reference::Algorithm;
using reference::Net;
using torch::Tensor;

constexpr int steps = 200;
constexpr double radius_hidden = 3, radius_bias = 0.5, radius_output = 20;

std::vector<reference::Layer> reference_layers() {
  const reference::Layer matrix{"spectral", radius_hidden}, vector{"rms", radius_bias};
  return {matrix, vector, matrix, vector, matrix, vector, matrix, {"sign", radius_output}};
}

struct Case {
  std::string label;
  std::string method;
  NormBallOptions options;
  Algorithm algorithm;
};

std::vector<Case> cases() {
  using std::min;
  const auto clip = [](double rho) {
    return [rho](double s, double, int64_t) { return min(rho, s); };
  };
  const auto full = [](double, double, int64_t) { return 1.0; };
  const auto steepest = [](double s, double, int64_t) { return s; };
  // Thresholds that clip on some of the steps and not on others. The constrained methods take short
  // steps: with long ones (0.2 of the ball) float64 runs on their own gradients part by 1e-6 in 200
  // steps, ours from the reference and from each other, while replayed gradients agree.
  const double rho = 8, rho_norm = 2, rho_s3cg = 0.06, rho_diameter = 0.5, beta = 2;
  std::vector<Case> all;
  const auto add = [&](std::string method, const NormBallOptions& options, Algorithm algorithm,
                       const std::string& suffix = "") {
    all.push_back({method + suffix, method, options, std::move(algorithm)});
  };
  add("gd", {0.05}, {.whole_vector = true, .gamma = 0.05, .eta = steepest});
  add("normalized_gd", {0.02}, {.whole_vector = true, .gamma = 0.02, .eta = full});
  add("clipped_gd", NormBallOptions(0.05).rho(1.2),
      {.whole_vector = true, .gamma = 0.05 / 1.2, .eta = clip(1.2)});
  add("sd", {1e-4}, {.gamma = 1e-4, .eta = steepest});
  add("adaptive_sd", NormBallOptions().l0(500).l1(50),
      {.eta = [](double s, double, int64_t) { return s / (500 + 50 * s); }});
  add("ucg", {0.002}, {.gamma = 0.002, .eta = full});
  add("ggnc", NormBallOptions(0.01).rho(rho).alpha(0.2),
      {.gamma = 0.01 / rho, .alpha = 0.2, .eta = clip(rho)});
  add("cg", {}, {.constrained = true, .eta = [](double, double, int64_t k) {
                   return 2 / (static_cast<double>(k) + 2);
                 }});
  const auto by_norm = [=](double s, double norm, int64_t) {
    return min(rho_s3cg, s / (beta * beta * norm * norm));
  };
  add("s3cg", NormBallOptions(0.02).rho(rho_s3cg).beta(beta).alpha(0.3).short_step("norm"),
      {.constrained = true,
       .gamma = 0.02 / rho_s3cg,
       .alpha = 0.3,
       .eta = by_norm,
       .radius = beta,
       .needs_norm = true},
      "_norm");
  add("s3cg", NormBallOptions(0.02).rho(rho_diameter).beta(beta).alpha(0.3).short_step("diameter"),
      {.constrained = true,
       .gamma = 0.02 / rho_diameter,
       .alpha = 0.3,
       .eta = [=](double s, double, int64_t) { return min(rho_diameter, s / (4 * beta * beta)); },
       .radius = beta},
      "_diameter");
  add("clipped_sign", NormBallOptions(2e-3).rho(15).alpha(0.2),
      {.gamma = 2e-3 / 15, .alpha = 0.2, .eta = clip(15), .norm = "plain_sign", .radius = 1});
  add("clipped_spectral", NormBallOptions(1e-2).rho(3).alpha(0.2),
      {.gamma = 1e-2 / 3, .alpha = 0.2, .eta = clip(3), .norm = "plain_spectral", .radius = 1});
  add("lars", NormBallOptions(1e-2).alpha(0.2),
      {.gamma = 1e-2, .alpha = 0.2, .eta = full, .norm = "euclidean", .radius = 1});
  add("clipped_lars", NormBallOptions(1e-2).rho(1.5).alpha(0.2),
      {.gamma = 1e-2 / 1.5, .alpha = 0.2, .eta = clip(1.5), .norm = "euclidean", .radius = 1});
  add("scion", NormBallOptions(0.01).alpha(0.2),
      {.constrained = true, .gamma = 0.01, .alpha = 0.2, .eta = full});
  add("unconstrained_scion", NormBallOptions(0.003).alpha(0.2),
      {.gamma = 0.003, .alpha = 0.2, .eta = full});
  add("clipped_scion", NormBallOptions(0.05).rho(rho).alpha(0.2),
      {.constrained = true, .gamma = 0.05 / rho, .alpha = 0.2, .eta = clip(rho)});
  add("clipped_scion", NormBallOptions(0.02).rho(rho_norm).alpha(0.2).short_step("norm"),
      {.constrained = true,
       .gamma = 0.02 / rho_norm,
       .alpha = 0.2,
       .eta = [=](double s, double norm, int64_t) { return min(rho_norm, s / (norm * norm)); },
       .needs_norm = true},
      "_norm");
  add("clipped_scion", NormBallOptions(0.02).rho(rho_norm).alpha(0.2).short_step("diameter"),
      {.constrained = true,
       .gamma = 0.02 / rho_norm,
       .alpha = 0.2,
       .eta = [=](double s, double, int64_t) { return min(rho_norm, s / 4); }},
      "_diameter");
  add("unconstrained_clipped_scion", NormBallOptions(0.01).rho(rho).alpha(0.2),
      {.gamma = 0.01 / rho, .alpha = 0.2, .eta = clip(rho)});
  return all;
}

// The gradients of step k: the network's, plus noise as from a small batch. The noise also keeps
// the matrices from being nearly singular, where float32 cannot know the polar factor.
std::vector<Tensor> gradients_at(const Net& net, const reference::Batch& batch, int k) {
  net.ptr()->zero_grad();
  batch.loss(net).backward();
  torch::manual_seed(1000 + static_cast<uint64_t>(k));
  std::vector<Tensor> gradients;
  for (const auto& weight : reference::weights_of(net)) {
    const Tensor noise = 0.02 * torch::randn(weight.sizes(), torch::kFloat64);
    gradients.push_back(weight.grad() + noise);
  }
  return gradients;
}

struct Trajectory {
  std::vector<std::vector<Tensor>> gradients;
  std::vector<double> pairings;
  std::vector<Tensor> weights;
};

Trajectory run_reference(const Case& c) {
  const reference::Batch batch(32, 3);
  const Net net = reference::make_net();
  auto weights = reference::weights_of(net);
  reference::Optimizer optimizer(c.algorithm, reference_layers());
  Trajectory result;
  for (int k = 0; k < steps; ++k) {
    result.gradients.push_back(gradients_at(net, batch, k));
    result.pairings.push_back(optimizer.step(weights, result.gradients.back()));
  }
  for (const auto& weight : weights) result.weights.push_back(weight.detach());
  if (const auto rho = c.options.rho()) {  // the threshold must have mattered, and not always
    const auto clipped =
        std::ranges::count_if(optimizer.etas(), [&](double e) { return e >= *rho; });
    EXPECT_GE(clipped, 5) << c.label;
    EXPECT_LE(clipped, steps - 5) << c.label;
  }
  return result;
}

// Takes the gradients that are in the network's tensors; returns s.
using Step = std::function<double()>;

Step adapter(const Case& c, const Net& net, bool force_aten) {
  NormBallOptions options = c.options;
  options.force_aten(force_aten);
  if (!c.algorithm.whole_vector && c.algorithm.radius == 0) {  // else they are the method's
    options.radii(normball::RoleRadii{.input = radius_hidden,
                                      .hidden = radius_hidden,
                                      .output = radius_output,
                                      .bias = radius_bias});
  }
  const auto optimizer = std::make_shared<NormBall>(*net, c.method, options);
  return [optimizer] {
    optimizer->step();
    return optimizer->report().pairing;
  };
}

template <class T>
Step core(const Case& c, const Net& net) {
  normball::MethodOptions given{
      .rho = c.options.rho(),
      .beta = c.options.beta(),
      .l0 = c.options.l0(),
      .l1 = c.options.l1(),
      .short_step = normball::parse_short_step(c.options.short_step().value_or("plain"))};
  if (c.options.lr()) given.lr = *c.options.lr();
  if (c.options.alpha()) given.alpha = *c.options.alpha();
  std::vector<normball::Layer> layers;
  const auto expected = reference_layers();
  const auto weights = reference::weights_of(net);
  for (size_t l = 0; l < weights.size(); ++l) {
    layers.emplace_back();
    layers[l].shape = normball::flatten(weights[l].sizes().vec());
    layers[l].norm = normball::parse_norm(expected[l].norm);
    layers[l].radius = expected[l].radius;
  }
  const auto optimizer =
      std::make_shared<normball::Optimizer<T>>(normball::make_method(c.method, given), layers);
  return [optimizer, weights, layers] {
    std::vector<normball::Parameter<T>> parameters;
    for (size_t l = 0; l < weights.size(); ++l) {
      const auto& shape = layers[l].shape;
      parameters.push_back({{weights[l].data_ptr<T>(), shape.rows, shape.cols},
                            {weights[l].grad().data_ptr<T>(), shape.rows, shape.cols}});
    }
    return optimizer->step(parameters).pairing;
  };
}

double error_of(const Tensor& got, const Tensor& expected) {
  return ((got.detach().to(torch::kFloat64) - expected).norm() / expected.norm()).item<double>();
}

// In float64 the network is trained with its own gradients; in float32 with the reference's, as
// a sign that flips where the gradient is 0 to rounding would change the path, not the arithmetic.
void expect_same(const Trajectory& expected, const std::string& label, torch::ScalarType type,
                 const std::function<Step(const Net&)>& make) {
  const reference::Batch batch(32, 3);
  const Net net = reference::make_net(type);
  const Step step = make(net);
  const auto weights = reference::weights_of(net);
  const double tolerance = type == torch::kFloat64 ? 1e-10 : 1e-5;
  double worst_pairing = 0;
  for (int k = 0; k < steps; ++k) {
    const auto at = static_cast<size_t>(k);
    const auto gradients =
        type == torch::kFloat64 ? gradients_at(net, batch, k) : expected.gradients[at];
    for (size_t l = 0; l < weights.size(); ++l) {
      weights[l].mutable_grad() = gradients[l].to(type).contiguous();
    }
    const double s = step();
    worst_pairing = std::max(worst_pairing,
                             std::abs(s - expected.pairings[at]) / std::abs(expected.pairings[at]));
  }
  double worst = 0;
  for (size_t l = 0; l < weights.size(); ++l) {
    worst = std::max(worst, error_of(weights[l], expected.weights[l]));
  }
  EXPECT_LE(worst, tolerance) << label << " weights";
  EXPECT_LE(worst_pairing, tolerance) << label << " s";
  std::printf("  %-40s weights %.1e  s %.1e\n", label.c_str(), worst, worst_pairing);
}

class EveryMethod : public ::testing::TestWithParam<Case> {};

TEST_P(EveryMethod, EqualsPlainPyTorch) {
  const Case& c = GetParam();
  const Trajectory expected = run_reference(c);
  const auto with = [&](bool aten) {
    return [&c, aten](const Net& net) { return adapter(c, net, aten); };
  };
  expect_same(expected, c.label + " core f64", torch::kFloat64,
              [&](const Net& net) { return core<double>(c, net); });
  expect_same(expected, c.label + " adapter f64", torch::kFloat64, with(false));
  expect_same(expected, c.label + " aten f64", torch::kFloat64, with(true));
  expect_same(expected, c.label + " core f32", torch::kFloat32,
              [&](const Net& net) { return core<float>(c, net); });
  expect_same(expected, c.label + " adapter f32", torch::kFloat32, with(false));
  expect_same(expected, c.label + " aten f32", torch::kFloat32, with(true));
}

INSTANTIATE_TEST_SUITE_P(Methods, EveryMethod, ::testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.label; });

TEST(Methods, AreAllTested) {
  std::set<std::string> tested;
  for (const auto& c : cases()) tested.insert(c.method);
  const auto names = normball::method_names();
  EXPECT_EQ(tested, std::set<std::string>(names.begin(), names.end()));
}

}  // namespace
