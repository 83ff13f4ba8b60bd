// What a LibTorch user relies on: groups, schedulers, closures, checkpoints, errors.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "normball/normball.h"
#include "normball_torch/clipped_scion.h"
#include "reference.h"
#include "support.h"

namespace {

using normball::StepReport;
using normball::optim::ClippedScion;
using normball::optim::ClippedScionOptions;
using normball::optim::group_of;
using normball::optim::NormBall;
using normball::optim::NormBallOptions;
using normball::optim::NormBallParamState;
using normball::optim::Scion;
using normball::optim::ScionOptions;
using reference::Batch;
using reference::make_net;
using reference::Net;
using support::equal;
using support::expect_error;
using support::parameter;
using torch::Tensor;
using torch::optim::OptimizerParamGroup;

ClippedScionOptions options() {
  return ClippedScionOptions(0.02).alpha(0.3).rho(5).radii(
      normball::RoleRadii{.input = 2, .hidden = 3, .output = 20, .bias = 0.5});
}

void backward(const Net& net, const Batch& batch) {
  net.ptr()->zero_grad();
  batch.loss(net).backward();
}

void train(const Net& net, NormBall& optimizer, int steps, uint64_t seed = 3) {
  const Batch batch(32, seed);
  for (int k = 0; k < steps; ++k) {
    backward(net, batch);
    optimizer.step();
  }
}

std::vector<Tensor> copies(const Net& net) {
  std::vector<Tensor> result;
  for (const auto& weight : reference::weights_of(net)) result.push_back(weight.detach().clone());
  return result;
}

double worst_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const Tensor difference = a[i].to(torch::kFloat64) - b[i].to(torch::kFloat64);
    worst = std::max(worst, difference.abs().max().item<double>());
  }
  return worst;
}

TEST(Training, ProgressInBothPaths) {
  for (const bool aten : {false, true}) {
    for (const bool constrained : {false, true}) {
      const Net net = make_net();
      const Batch batch(32, 3);
      ClippedScion optimizer(*net, options().force_aten(aten).constrained(constrained));
      const double before = batch.loss(net).item<double>();
      train(net, optimizer, 60);
      EXPECT_LT(batch.loss(net).item<double>(), 0.5 * before);
      EXPECT_EQ(optimizer.steps_taken(), 60);
    }
  }
}

TEST(Training, NonContiguousParametersMoveAsContiguousOnes) {
  torch::manual_seed(1);
  const Tensor base = torch::randn({6, 4}, torch::kFloat64);
  const Tensor gradient = torch::randn({4, 6}, torch::kFloat64);
  Tensor strided = base.clone().t().set_requires_grad(true);
  Tensor plain = base.t().contiguous().set_requires_grad(true);
  ASSERT_FALSE(strided.is_contiguous());
  for (Tensor* w : {&strided, &plain}) {
    w->mutable_grad() = gradient.clone();
    ClippedScion optimizer(std::vector<Tensor>{*w}, options());
    for (int k = 0; k < 3; ++k) optimizer.step();
  }
  EXPECT_LE((strided - plain).abs().max().item<double>(), 1e-14);
  EXPECT_GT((strided.detach().t() - base).abs().max().item<double>(), 1e-3);
}

// The gradient of a sum is one number, seen many times.
TEST(Training, ExpandedGradientsAreRead) {
  Tensor w = torch::zeros({3, 2}, torch::kFloat64).set_requires_grad(true);
  w.sum().backward();
  Scion optimizer(std::vector<Tensor>{w}, ScionOptions(0.5).norm("sign(unit)"));
  optimizer.step();
  EXPECT_TRUE(torch::equal(w.detach(), torch::full({3, 2}, -0.5, torch::kFloat64)));
}

TEST(Training, SixteenBitWeightsAreComputedInFloat32) {
  for (const auto type : {torch::kBFloat16, torch::kHalf}) {
    Tensor narrow = parameter({12, 8}, 1, type);
    Tensor wide = narrow.detach().to(torch::kFloat32).set_requires_grad(true);
    wide.mutable_grad() = narrow.grad().to(torch::kFloat32);
    ClippedScion a(std::vector<Tensor>{narrow}, options()), b(std::vector<Tensor>{wide}, options());
    a.step();
    b.step();
    EXPECT_NEAR(a.report().pairing, b.report().pairing, 1e-5 * b.report().pairing);
    const double rounding = type == torch::kBFloat16 ? 1.0 / 256 : 1.0 / 2048;
    EXPECT_LE((narrow - wide).abs().max().item<double>(),
              rounding * wide.abs().max().item<double>());
    const auto& state = static_cast<const NormBallParamState&>(*a.state().begin()->second);
    EXPECT_EQ(state.momentum_buffer().scalar_type(), torch::kFloat32);
  }
}

// One s and one η, whatever the types and paths of the parameters.
TEST(Training, MixedTypesShareOneStep) {
  for (const std::string method : {"ggnc", "clipped_gd", "clipped_lars", "gd"}) {
    std::vector<Tensor> same = {parameter({8, 4}, 1), parameter({5, 7}, 2), parameter({9}, 3)};
    std::vector<Tensor> mixed = {parameter({8, 4}, 1), parameter({5, 7}, 2, torch::kFloat32),
                                 parameter({9}, 3)};
    Tensor strided = parameter({3, 6}, 4).detach().t().set_requires_grad(true);
    strided.mutable_grad() = parameter({6, 3}, 5).grad();
    Tensor contiguous = strided.detach().contiguous().set_requires_grad(true);
    contiguous.mutable_grad() = strided.grad();
    same.push_back(contiguous);
    mixed.push_back(strided);
    auto given = NormBallOptions(0.1);
    if (method != "gd") given.rho(2);
    NormBall a(same, method, given), b(mixed, method, given);
    for (int k = 0; k < 3; ++k) {
      a.step();
      b.step();
      EXPECT_NEAR(a.report().pairing, b.report().pairing, 1e-6 * a.report().pairing) << method;
      EXPECT_NEAR(a.report().eta, b.report().eta, 1e-6 * a.report().eta) << method;
    }
    EXPECT_EQ(b.report().layers.size(), 4U);
    EXPECT_LE(worst_difference(same, mixed), 1e-6) << method;
  }
}

TEST(Invariance, GradientAccumulation) {
  const Batch batch(32, 3);
  const Net whole = make_net(), parts = make_net();
  ClippedScion a(*whole, options()), b(*parts, options());
  for (int k = 0; k < 10; ++k) {
    backward(whole, batch);
    a.step();
    parts.ptr()->zero_grad();
    for (int64_t i = 0; i < 4; ++i) (batch.loss(parts, 8 * i, 8 * i + 8) / 4).backward();
    b.step();
    EXPECT_NEAR(a.report().pairing, b.report().pairing, 1e-12 * a.report().pairing);
  }
  EXPECT_LE(worst_difference(copies(whole), copies(parts)), 1e-11);
}

// Replicas that average their gradients have the s of one that sees all the data.
TEST(Invariance, Replicas) {
  const Batch batch(32, 3);
  const Net whole = make_net();
  ClippedScion one(*whole, options());
  backward(whole, batch);
  one.step();
  for (const int64_t count : {2, 4, 8}) {
    std::vector<Net> nets;
    for (int64_t r = 0; r < count; ++r) {
      nets.push_back(make_net());
      batch.loss(nets.back(), 32 / count * r, 32 / count * (r + 1)).backward();
    }
    for (size_t l = 0; l < reference::weights_of(whole).size(); ++l) {
      Tensor sum = torch::zeros_like(reference::weights_of(whole)[l]);
      for (const auto& net : nets) sum += reference::weights_of(net)[l].grad();
      for (const auto& net : nets) {
        reference::weights_of(net)[l].mutable_grad() = sum.detach() / static_cast<double>(count);
      }
    }
    for (const auto& net : nets) {
      ClippedScion optimizer(*net, options());
      optimizer.step();
      EXPECT_NEAR(optimizer.report().pairing, one.report().pairing, 1e-12 * one.report().pairing);
      EXPECT_LE(worst_difference(copies(net), copies(whole)), 1e-11);
    }
  }
}

// Beyond the rounding of a sum in another order.
TEST(Invariance, OrderAndGrouping) {
  const auto named = [](const Net& net) { return net->named_parameters(); };
  const Net plain = make_net();
  ClippedScion first(named(plain), options());
  train(plain, first, 20);

  const Net reversed = make_net();
  torch::OrderedDict<std::string, Tensor> backwards;
  auto items = named(reversed).items();
  std::reverse(items.begin(), items.end());
  for (const auto& item : items) backwards.insert(item.key(), item.value());
  ClippedScion second(backwards, options());
  train(reversed, second, 20);
  EXPECT_LE(worst_difference(copies(plain), copies(reversed)), 1e-12);

  const Net grouped = make_net();
  std::vector<OptimizerParamGroup> groups;
  groups.push_back(group_of(*grouped->conv));
  groups.push_back(OptimizerParamGroup(
      {grouped->embed->weight},
      std::make_unique<NormBallOptions>(NormBallOptions().role("output").names({"embed"}))));
  std::vector<Tensor> rest;
  std::vector<std::string> names;
  for (const auto& item : named(grouped)) {
    if (item.key().starts_with("conv") || item.key() == "embed.weight") continue;
    if (item.key() == "head.weight") continue;
    rest.push_back(item.value());
    names.push_back(item.key());
  }
  groups.push_back(
      OptimizerParamGroup(rest, std::make_unique<NormBallOptions>(NormBallOptions().names(names))));
  ClippedScion third(groups, options());
  train(grouped, third, 20);
  EXPECT_LE(worst_difference(copies(plain), copies(grouped)), 1e-12);
}

TEST(Invariance, NumberOfThreads) {
  std::vector<std::vector<Tensor>> results;
  for (const int threads : {1, 2, 4}) {
    std::vector<Tensor> weights = {parameter({300, 200}, 1, torch::kFloat32),
                                   parameter({100, 400}, 2, torch::kFloat32),
                                   parameter({50000}, 3, torch::kFloat32)};
    ClippedScion optimizer(weights, options().threads(threads));
    for (int k = 0; k < 3; ++k) optimizer.step();
    results.push_back({});
    for (const auto& w : weights) results.back().push_back(w.detach());
  }
  EXPECT_TRUE(equal(results[0], results[1]));
  EXPECT_TRUE(equal(results[0], results[2]));
}

TEST(Groups, SchedulersAndLrs) {
  Tensor a = parameter({4, 3}, 1), b = parameter({4, 3}, 2);
  std::vector<OptimizerParamGroup> groups;
  groups.push_back(OptimizerParamGroup({a}));
  groups.push_back(OptimizerParamGroup(
      {b}, std::make_unique<NormBallOptions>(NormBallOptions(0.1).norm("sign(unit)"))));
  Scion optimizer(groups, ScionOptions(0.4).norm("sign(unit)"));
  torch::optim::StepLR scheduler(optimizer, 1, 0.5);
  for (int k = 0; k < 4; ++k) {
    const Tensor before_a = a.detach().clone(), before_b = b.detach().clone();
    const double lr = optimizer.param_groups()[0].options().get_lr();
    optimizer.step();
    scheduler.step();
    EXPECT_NEAR((a.detach() - before_a).abs().max().item<double>(), lr, 1e-15);
    EXPECT_NEAR((b.detach() - before_b).abs().max().item<double>(), lr / 4, 1e-15);
    EXPECT_EQ(optimizer.report().lr, lr);
  }
  EXPECT_LE(optimizer.param_groups()[0].options().get_lr(), 0.1);
}

TEST(Groups, NormRadiusAndRoleOfEach) {
  Tensor a = parameter({4, 3}, 1), b = parameter({4, 3}, 2), c = parameter({6, 2}, 3);
  std::vector<OptimizerParamGroup> groups;
  groups.push_back(OptimizerParamGroup(
      {a}, std::make_unique<NormBallOptions>(NormBallOptions().norm("row").radius(7))));
  groups.push_back(OptimizerParamGroup(
      {b}, std::make_unique<NormBallOptions>(NormBallOptions().role("output"))));
  groups.push_back(OptimizerParamGroup(
      {c}, std::make_unique<NormBallOptions>(NormBallOptions().split("3").names({"qkv"}))));
  ClippedScion optimizer(groups, options());
  const auto layers = optimizer.routing().layers();
  ASSERT_EQ(layers.size(), 5U);
  EXPECT_EQ(normball::to_string(layers[0].norm), "row");
  EXPECT_EQ(layers[0].radius, 7);
  EXPECT_EQ(normball::to_string(layers[1].norm), "sign");
  EXPECT_EQ(layers[1].radius, 20);
  EXPECT_EQ(layers[3].name, "qkv[1]");
  EXPECT_EQ(layers[3].shape, (normball::Shape{.rows = 2, .cols = 2}));
  optimizer.step();
  double sum = 0;
  for (const auto& layer : optimizer.report().layers) sum += layer.pairing;
  EXPECT_NEAR(sum, optimizer.report().pairing, 1e-12 * sum);
}

// Each block has an LMO of its own, in both paths.
TEST(Groups, SplitsAndStacksEqualSeparateParameters) {
  for (const bool aten : {false, true}) {
    for (const std::string split : {"rows(3)", "columns(2)", "experts"}) {
      Tensor fused = parameter({6, 4, 1}, 1).detach().squeeze(2).clone().set_requires_grad(true);
      if (split == "experts") fused = parameter({3, 4, 5}, 1);
      fused.mutable_grad() = torch::randn(fused.sizes(), torch::kFloat64);
      const auto cut = [&](const Tensor& x) {
        return split == "rows(3)"      ? x.chunk(3, 0)
               : split == "columns(2)" ? x.chunk(2, 1)
                                       : x.unbind(0);
      };
      std::vector<Tensor> apart;
      for (const auto& part : cut(fused.detach())) {
        apart.push_back(part.clone().contiguous().set_requires_grad(true));
      }
      const auto gradients = cut(fused.grad());
      for (size_t i = 0; i < apart.size(); ++i) apart[i].mutable_grad() = gradients[i].contiguous();
      auto own = options().force_aten(aten);
      if (split == "experts") {
        own.batch(1);
      } else {
        own.split(split);
      }
      ClippedScion a(std::vector<Tensor>{fused}, own);
      ClippedScion b(apart, options().force_aten(aten));
      for (int k = 0; k < 3; ++k) {
        a.step();
        b.step();
      }
      EXPECT_NEAR(a.report().pairing, b.report().pairing, 1e-12 * b.report().pairing);
      const auto blocks = cut(fused.detach());
      for (size_t i = 0; i < apart.size(); ++i) {
        EXPECT_LE((blocks[i] - apart[i]).abs().max().item<double>(), 1e-14) << split;
      }
    }
  }
}

TEST(Groups, MayJoinLater) {
  Tensor a = parameter({4, 3}, 1), b = parameter({5, 2}, 2);
  ClippedScion optimizer(std::vector<Tensor>{a}, options());
  optimizer.step();
  optimizer.add_param_group(
      OptimizerParamGroup({b}, std::make_unique<NormBallOptions>(NormBallOptions().norm("sign"))));
  EXPECT_EQ(normball::to_string(optimizer.routing().routes[1].norm), "sign");
  const Tensor before = b.detach().clone();
  optimizer.step();
  EXPECT_FALSE(torch::equal(before, b.detach()));
  EXPECT_EQ(optimizer.steps_taken(), 2);
  EXPECT_EQ(optimizer.param_groups()[1].options().get_lr(), 0.02);
}

TEST(Groups, ThatJoinLaterDoNotChangeWhatWasGuessed) {
  for (const bool stepped : {false, true}) {
    torch::nn::Sequential body(torch::nn::Linear(6, 8), torch::nn::ReLU(), torch::nn::Linear(8, 4));
    torch::nn::Linear more(4, 5);
    ClippedScion optimizer(*body, options());
    const auto norm_of = [&](const std::string& name) -> std::string {
      for (const auto& route : optimizer.routing().routes) {
        if (route.name == name) return normball::to_string(route.norm);
      }
      return "no such parameter";
    };
    ASSERT_EQ(norm_of("2.weight"), "sign");
    if (stepped) {
      body->forward(torch::ones({3, 6})).sum().backward();
      optimizer.step();
    }
    optimizer.add_param_group(normball::optim::group_of(*more, NormBallOptions(), "more"));
    EXPECT_EQ(norm_of("2.weight"), stepped ? "sign" : "spectral");
    EXPECT_EQ(norm_of("more.weight"), stepped ? "spectral" : "sign");
  }
}

TEST(Groups, ChangedOptionsAreSeen) {
  Tensor w = parameter({4, 3}, 1);
  ClippedScion optimizer(std::vector<Tensor>{w}, options());
  optimizer.step();
  static_cast<NormBallOptions&>(optimizer.param_groups()[0].options()).norm("sign");
  EXPECT_EQ(normball::to_string(optimizer.routing().routes[0].norm), "sign");
  optimizer.step();
  EXPECT_EQ(optimizer.report().step, 1);
}

TEST(Gradients, MissingAndZeroAreNoOps) {
  for (const bool aten : {false, true}) {
    Tensor a = parameter({4, 3}, 1), b = parameter({5}, 2), c = parameter({3, 6}, 3);
    const auto before = std::vector<Tensor>{a.detach().clone(), b.detach().clone()};
    a.mutable_grad() = Tensor();
    b.grad().zero_();
    ClippedScion optimizer({a, b, c}, options().force_aten(aten));
    optimizer.step();
    EXPECT_TRUE(equal(before, {a.detach(), b.detach()}));
    EXPECT_TRUE(std::isfinite(optimizer.report().pairing));

    c.mutable_grad() = Tensor();
    b.mutable_grad() = Tensor();
    optimizer.step();  // no gradient anywhere: not even a step
    EXPECT_EQ(optimizer.steps_taken(), 1);
    for (Tensor* w : {&a, &b, &c}) w->mutable_grad() = torch::zeros_like(*w);
    Tensor fresh = parameter({4, 3}, 1);
    fresh.grad().zero_();
    const Tensor start = fresh.detach().clone();
    for (const bool constrained : {false, true}) {
      ClippedScion second(std::vector<Tensor>{fresh},
                          options().force_aten(aten).constrained(constrained));
      second.step();
      EXPECT_TRUE(torch::equal(fresh.detach(), start));
    }
  }
}

TEST(Gradients, NotFiniteChangesNothing) {
  for (const bool skip : {false, true}) {
    for (const int paths : {0, 1, 2}) {  // core, tensor operations, both
      Tensor a = parameter({4, 3}, 1), b = parameter({5, 2}, 2);
      if (paths == 2) b = parameter({5, 2}, 2, torch::kFloat32);
      ClippedScion optimizer({a, b}, options().force_aten(paths == 1).skip_nonfinite(skip));
      optimizer.step();
      const auto state = [&](const Tensor& w) {
        for (const auto& entry : optimizer.state()) {
          const auto& own = static_cast<const NormBallParamState&>(*entry.second);
          if (own.momentum_buffer().sizes() == w.sizes()) return own.momentum_buffer().clone();
        }
        return Tensor();
      };
      const std::vector<Tensor> before = {a.detach().clone(), b.detach().clone(), state(a),
                                          state(b)};
      b.grad()[1][1] = std::nan("");
      if (skip) {
        optimizer.step();
        EXPECT_TRUE(optimizer.report().skipped);
        EXPECT_EQ(optimizer.report().nonfinite_layer, "param1");
      } else {
        EXPECT_THROW(optimizer.step(), normball::NonFiniteError);
      }
      EXPECT_TRUE(equal(before, {a.detach(), b.detach(), state(a), state(b)}));
      EXPECT_EQ(optimizer.steps_taken(), 1);
      b.grad()[1][1] = 1;
      optimizer.step();
      EXPECT_EQ(optimizer.steps_taken(), 2);
    }
  }
}

TEST(Conventions, ClosuresZeroGradAndAutograd) {
  const Net net = make_net();
  const Batch batch(32, 3);
  ClippedScion optimizer(*net, options());
  const Tensor loss = optimizer.step([&] {
    optimizer.zero_grad();
    const Tensor value = batch.loss(net);
    value.backward();
    return value;
  });
  EXPECT_GT(loss.item<double>(), 0);
  EXPECT_EQ(optimizer.steps_taken(), 1);
  EXPECT_TRUE(net->mix->weight.requires_grad());
  optimizer.zero_grad();
  const Tensor cleared = net->mix->weight.grad();  // LibTorch 1 sets it to 0, LibTorch 2 to none
  EXPECT_TRUE(!cleared.defined() || cleared.abs().sum().item<double>() == 0);

  // A graph that saved the weights must not run backward after they changed.
  Tensor w = parameter({3, 3}, 1);
  ClippedScion second(std::vector<Tensor>{w}, options());
  const Tensor y = (w * w).sum();
  second.step();
  EXPECT_THROW(y.backward(), c10::Error);
}

TEST(Conventions, TiedWeightsMoveOnce) {
  const Net net = make_net();
  ClippedScion optimizer(*net, options());
  const auto text = optimizer.explain();
  EXPECT_NE(text.find("embedding tied to the output head"), std::string::npos) << text;
  EXPECT_EQ(text.find("warning"), std::string::npos) << text;
  EXPECT_EQ(optimizer.routing().layers().size(), 8U);
  // A list that has it twice is told so.
  ClippedScion listed(net->named_parameters(), options());
  EXPECT_NE(listed.explain().find("listed twice"), std::string::npos) << listed.explain();
  EXPECT_EQ(listed.routing().layers().size(), 8U);
  // Both names are its own.
  ClippedScion ruled(
      *net, options().rules(std::vector<normball::RoutingRule>{{"head.weight", {.radius = 77}}}));
  EXPECT_EQ(ruled.routing().routes[7].radius, 77);
  const auto& embed = optimizer.routing().routes[7];
  EXPECT_EQ(embed.name, "embed.weight");
  EXPECT_EQ(normball::to_string(embed.norm), "sign");
}

TEST(Conventions, ExplainListsWhatNoGroupHas) {
  const Net net = make_net();
  ClippedScion optimizer(net->conv->parameters(), options().grad_clip(1));
  const auto text = optimizer.explain(*net);
  EXPECT_NE(text.find("'mix.weight' is in no parameter group"), std::string::npos) << text;
  EXPECT_NE(text.find("clip_grad_norm"), std::string::npos) << text;
}

TEST(Conventions, KindsComeFromTheModules) {
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3)),
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3).groups(8)),
                            torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(8, 4, 3)),
                            torch::nn::LayerNorm(torch::nn::LayerNormOptions({5, 5})));
  ClippedScion optimizer(*net, options());
  std::vector<std::string> norms;
  for (const auto& route : optimizer.routing().routes) {
    if (route.name.ends_with("weight")) norms.push_back(normball::to_string(route.norm));
  }
  EXPECT_EQ(norms,
            (std::vector<std::string>{"spectral(input)", "row", "spectral(transposed)", "rms"}));
}

class Swap : public normball::NormOracle {
 public:
  void lmo(normball::ConstMatrixView<double> d, normball::MatrixView<double> out) const override {
    for (normball::Index i = 0; i < d.rows; ++i) {
      for (normball::Index j = 0; j < d.cols; ++j) out(i, j) = d(i, j) > 0 ? -2 : 2;
    }
  }
};

TEST(Conventions, ANormOfYourOwn) {
  for (const bool aten : {false, true}) {
    Tensor w = parameter({4, 3}, 1);
    const Tensor expected = w.detach() - 0.2 * w.grad().sign();
    Scion optimizer(std::vector<Tensor>{w},
                    ScionOptions(0.1).oracle(std::make_shared<Swap>()).force_aten(aten));
    optimizer.step();
    EXPECT_LE((w.detach() - expected).abs().max().item<double>(), 1e-15);
  }
}

TEST(Solvers, GiveTheSameInBothPaths) {
  for (const std::string solver : {"exact", "damped", "svd", "muon", "polar_express(steps=6)",
                                   "polar_express(gram)", "cubic(rescale_rows)", "power(rank=2)"}) {
    std::vector<std::vector<Tensor>> results;
    for (const bool aten : {false, true}) {
      std::vector<Tensor> weights = {parameter({6, 9}, 1), parameter({9, 5}, 2)};
      Scion optimizer(weights, ScionOptions(0.1).alpha(0.5).solver(solver).force_aten(aten));
      for (uint64_t k = 0; k < 5; ++k) {
        for (auto& w : weights) w.mutable_grad() = parameter(w.sizes(), 10 + k).grad();
        optimizer.step();
      }
      results.push_back({weights[0].detach(), weights[1].detach()});
    }
    EXPECT_LE(worst_difference(results[0], results[1]), 1e-9) << solver;
  }
}

TEST(Errors, NameTheOptionAndTheRemedy) {
  const Tensor w = parameter({4, 3});
  const std::vector<Tensor> one = {w};
  const auto refused = [&](const ClippedScionOptions& bad, const std::vector<std::string>& parts) {
    expect_error([&] { ClippedScion(one, bad).explain(); }, parts);
  };
  refused(options().lr(-1), {"lr", "-1"});
  refused(options().alpha(0), {"alpha", "(0, 1]"});
  refused(options().alpha(1.5), {"alpha", "1.5"});
  refused(options().rho(-2), {"rho", "-2"});
  refused(ClippedScionOptions(0.1), {"needs rho"});
  refused(ClippedScionOptions().rho(1), {"needs lr"});
  refused(options().constrained(true).lr(1.5), {"constrained", "1.5"});
  refused(options().short_step("norm"), {"[ClippedScion]", "constrained"});
  refused(options().constrained(true).short_step("nrom"), {"did you mean 'norm'"});
  refused(options().norm("spektral"), {"did you mean 'spectral'"});
  refused(options().role("hiden"), {"did you mean 'hidden'"});
  refused(options().radius(0), {"radius", "positive"});
  refused(options().split("5"), {"split", "4 rows"});
  refused(options().batch(3), {"batch 3"});
  refused(options().solver("muno"), {"did you mean 'muon'"});
  refused(options().threads(-1), {"threads", "-1"});
  refused(options().names({"a", "b"}), {"1 parameters but 2 names"});
  refused(options().kinds({"comv"}), {"did you mean 'conv'"});
  refused(options()
              .names({"blocks.0.weight"})
              .rules(std::vector<normball::RoutingRule>{{"block.0.weight", {}}}),
          {"matches no parameter", "'blocks.0.weight'"});
  expect_error([&] { Scion(one, ScionOptions(0.1).rho(1)); }, {"[Scion]", "ClippedScion"});
  expect_error([&] { NormBall(one, "gnc", options()); }, {"did you mean 'ggnc'"});
  expect_error([&] { NormBall(one, "ggnc", options().constrained(true)); }, {"unconstrained"});

  const auto group = [&](const NormBallOptions& own) {
    expect_error(
        [&] {
          std::vector<OptimizerParamGroup> groups;
          groups.push_back(OptimizerParamGroup(one));
          groups.push_back(
              OptimizerParamGroup({parameter({2, 2}, 4)}, std::make_unique<NormBallOptions>(own)));
          ClippedScion(groups, options());
        },
        {"group 1", "whole optimizer"});
  };
  group(NormBallOptions().alpha(0.5));
  group(NormBallOptions().rho(7));
  group(NormBallOptions().constrained(true));
  group(NormBallOptions().short_step("norm"));
  group(NormBallOptions().solver("muon"));
  group(NormBallOptions().threads(2));
  expect_error(
      [&] {
        std::vector<OptimizerParamGroup> groups(2, OptimizerParamGroup(one));
        ClippedScion(groups, options());
      },
      {"group 1", "also in group 0"});
  expect_error(
      [&] {
        std::vector<OptimizerParamGroup> groups;
        groups.push_back(OptimizerParamGroup(one, std::make_unique<torch::optim::SGDOptions>(0.1)));
        ClippedScion(groups, options());
      },
      {"group 0", "NormBallOptions"});
  expect_error(
      [] {
        const Tensor complex = torch::zeros({2}, torch::kComplexFloat).set_requires_grad(true);
        ClippedScion(std::vector<Tensor>{complex}, options()).explain();
      },
      {"ComplexFloat"});
  expect_error(
      [&] {
        const Tensor alias = w.detach().set_requires_grad(true);
        ClippedScion({w, alias}, options()).explain();
      },
      {"share memory"});
  expect_error(
      [] {
        torch::nn::Embedding embed(torch::nn::EmbeddingOptions(5, 3).sparse(true));
        embed->forward(torch::tensor({1, 2})).sum().backward();
        ClippedScion(embed->parameters(), options()).step();
      },
      {"sparse"});
}

// A resumed run and its files, by a process of its own.
struct Resumable {
  Net net = make_net();
  ClippedScion optimizer;

  explicit Resumable(const std::string& kind)
      : optimizer(*net, options()
                            .force_aten(kind == "aten")
                            .constrained(kind == "constrained")
                            .solver(kind == "core" ? "power(rank=2)" : "exact")) {}

  void train(int begin, int end) {
    const Batch batch(32, 3);
    for (int k = begin; k < end; ++k) {
      backward(net, batch);
      optimizer.step();
    }
  }
  void save(const std::string& file) {
    torch::save(net, file + ".net");
    torch::save(optimizer, file + ".optimizer");
  }
  void load(const std::string& file) {
    torch::load(net, file + ".net");
    torch::load(optimizer, file + ".optimizer");
  }
};

// Run by the test below in a new process.
TEST(Checkpoint, DISABLED_Continue) {
  const char* const file = std::getenv("NORMBALL_TEST_FILE");
  const char* const kind = std::getenv("NORMBALL_TEST_KIND");
  ASSERT_TRUE(file != nullptr && kind != nullptr);
  Resumable run(kind);
  run.load(std::string(file) + "-50");
  EXPECT_EQ(run.optimizer.steps_taken(), 50);
  run.train(50, 100);
  run.save(std::string(file) + "-100");
}

TEST(Checkpoint, ContinuesBitForBitInANewProcess) {
  const auto directory = std::filesystem::temp_directory_path() /
                         ("normball-checkpoint-" + std::to_string(::getpid()));
  std::filesystem::create_directory(directory);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  for (const std::string kind : {"core", "aten", "constrained"}) {
    const std::string file = (directory / kind).string();
    Resumable whole(kind), half(kind);
    whole.train(0, 100);
    half.train(0, 50);
    half.save(file + "-50");
    const std::string command = "NORMBALL_TEST_FILE=" + file + " NORMBALL_TEST_KIND=" + kind + " " +
                                self +
                                " --gtest_brief=1 --gtest_also_run_disabled_tests "
                                "--gtest_filter=Checkpoint.DISABLED_Continue";
    ASSERT_EQ(std::system(command.c_str()), 0) << kind;
    Resumable loaded(kind);
    loaded.load(file + "-100");
    EXPECT_TRUE(equal(copies(whole.net), copies(loaded.net))) << kind;
    EXPECT_EQ(loaded.optimizer.steps_taken(), 100);
    // And the state: one more step must agree as well.
    whole.train(100, 101);
    loaded.train(100, 101);
    EXPECT_TRUE(equal(copies(whole.net), copies(loaded.net))) << kind;
    EXPECT_EQ(whole.optimizer.report().pairing, loaded.optimizer.report().pairing);
  }
  std::filesystem::remove_all(directory);
}

// Parameters without a gradient have no state; the others' comes back.
TEST(Checkpoint, ParametersThatNeverMoved) {
  std::vector<Tensor> a = {parameter({4, 3}, 1), parameter({5}, 2)}, b;
  a[1].mutable_grad() = Tensor();
  ClippedScion from(a, options());
  from.step();
  for (const auto& w : a) b.push_back(w.detach().clone().set_requires_grad(true));
  ClippedScion into(b, options());
  std::stringstream stream;
  torch::save(from, stream);
  torch::load(into, stream);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i].mutable_grad() = torch::ones_like(a[i]).detach();
    b[i].mutable_grad() = a[i].grad().clone();
  }
  from.step();
  into.step();
  EXPECT_TRUE(equal({a[0].detach(), a[1].detach()}, {b[0].detach(), b[1].detach()}));
}

TEST(Checkpoint, AStateThatDoesNotFitChangesNothing) {
  Tensor a = parameter({4, 3}, 1), b = parameter({3, 4}, 1);
  ClippedScion from(std::vector<Tensor>{a}, options()), into(std::vector<Tensor>{b}, options());
  from.step();
  into.step();
  std::stringstream stream;
  torch::save(from, stream);
  expect_error([&] { torch::load(into, stream); }, {"[NormBall::load]", "[4, 3]", "[3, 4]"});
  EXPECT_EQ(into.steps_taken(), 1);
  const double s = into.report().pairing;
  into.step();
  EXPECT_GT(into.report().pairing, s);  // the average still holds the first gradient
}

}  // namespace
