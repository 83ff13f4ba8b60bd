#include "normball/optimizer.h"

#include <atomic>
#include <limits>
#include <type_traits>

#include "model.h"

namespace normball::testing {
namespace {

using Net = Model<double>;

TEST(Optimizer, MomentumIsTheConvexCombinationFromZero) {
  Net net(one_layer(3, 4, Euclidean{}));
  Method method = sd(0.1);
  method.alpha = 0.25;
  Optimizer<double> optimizer(method, net.layers);
  Random random(1);
  Matrix<double> d(3, 4), x = net.weights[0];
  for (int k = 0; k < 10; ++k) {
    net.new_gradients(random);
    for (size_t i = 0; i < d.data.size(); ++i) {
      d.data[i] = 0.25 * net.gradients[0].data[i] + 0.75 * d.data[i];
    }
    x = minus(x, 0.1, d);
    optimizer.step(net.parameters());
    EXPECT_LE(max_difference(net.weights[0], x), 1e-14);
  }
}

// lr is γρ: it bounds the product norm of the step, clipped or not.
TEST(Optimizer, ClippedStepNeverExceedsLr) {
  Random random(5);
  for (const double rho : {0.1, 1.0, 5.0, 1000.0}) {
    Net net(every_norm());
    Optimizer<double> optimizer(unconstrained_clipped_scion(0.05, 0.5, rho), net.layers);
    for (int k = 0; k < 20; ++k) {
      net.new_gradients(random, std::exp(3 * random.normal()));
      const auto before = net.weights;
      const auto& report = optimizer.step(net.parameters());
      for (size_t l = 0; l < before.size(); ++l)
        net.weights[l] = minus(before[l], 1, net.weights[l]);
      const double expected = 0.05 * std::min(1.0, report.pairing / rho);
      EXPECT_NEAR(net.product_norm(), expected, 1e-10);
      net.weights = before;
    }
  }
}

// The caller's averages and the optimizer's own give the same bits, and only the latter are state.
TEST(Optimizer, MomentumMayLiveOutside) {
  Net inside(every_norm()), outside(every_norm());
  const Method method = clipped_scion(0.1, 0.3, 5);
  Optimizer<double> own(method, inside.layers);
  Optimizer<double> external(method, outside.layers, {.external_momentum = true});
  EXPECT_TRUE(external.state().empty());
  auto parameters = outside.parameters();
  std::vector<Matrix<double>> averages;
  for (const auto& layer : outside.layers) {
    averages.emplace_back(layer.shape.rows, layer.shape.cols);
  }
  for (size_t l = 0; l < parameters.size(); ++l) parameters[l].momentum = averages[l].view();
  Random random(3);
  for (int k = 0; k < 5; ++k) {
    inside.new_gradients(random);
    for (size_t l = 0; l < parameters.size(); ++l) {
      outside.gradients[l].data = inside.gradients[l].data;
    }
    own.step(inside.parameters());
    external.step(parameters);
  }
  for (size_t l = 0; l < parameters.size(); ++l) {
    EXPECT_EQ(inside.weights[l].data, outside.weights[l].data);
  }
  expect_invalid([&] { external.step(outside.parameters()); }, {"[Optimizer::step]", "momentum"});
}

// A layer with an lr of its own moves by its share of the same step; s stays the model's.
TEST(Optimizer, LrFactorScalesALayersStep) {
  Net plain(every_norm()), scaled(every_norm());
  const auto before = plain.weights;
  const Method method = unconstrained_clipped_scion(0.1, 0.3, 5);
  Optimizer<double> first(method, plain.layers), second(method, scaled.layers);
  auto parameters = scaled.parameters();
  for (size_t l = 0; l < parameters.size(); ++l) {
    parameters[l].lr_factor = 0.5 * static_cast<double>(l);
  }
  const double s = first.step(plain.parameters()).pairing;
  EXPECT_EQ(second.step(parameters).pairing, s);
  for (size_t l = 0; l < parameters.size(); ++l) {
    const auto step = minus(plain.weights[l], 1, before[l]);
    const auto expected = minus(before[l], -parameters[l].lr_factor, step);
    EXPECT_LE(max_difference(scaled.weights[l], expected), 1e-14);
  }
  parameters[0].lr_factor = -1;
  expect_invalid([&] { second.step(parameters); }, {"[Optimizer::step]", "lr of '", "negative"});
  // Nothing may carry a constrained layer out of its ball.
  Optimizer<double> constrained(scion(0.6, 1), scaled.layers);
  parameters[0].lr_factor = 2;
  expect_invalid([&] { constrained.step(parameters); },
                 {"[Optimizer::step]", "lr of '", "gamma eta <= 1"});
}

// The longest step is lr times the most that the rule gives: either may be above 1.
TEST(Constrained, TheBoundIsOnTheLongestStepNotOnTheLr) {
  const auto far = [](double lr, double most) {
    return make_method("scion", {.lr = lr, .stepsize = DistanceAware{.first = 0.4, .most = most}});
  };
  for (const auto& [lr, most] : {std::pair(0.5, 2.0), std::pair(1.25, 0.8)}) {
    Model<double> model(every_norm(), 3);
    Random random(3);
    model.move_into_ball(random);
    Optimizer<double> optimizer(far(lr, most), model.layers);
    double longest = 0;
    for (int k = 0; k < 30; ++k) {
      model.new_gradients(random);
      const StepReport& report = optimizer.step(model.parameters());
      longest = std::max(longest, report.gamma * report.eta);
      EXPECT_LE(model.product_norm(), 1 + 1e-9);
    }
    EXPECT_GT(longest, 0.1);
    auto parameters = model.parameters();
    parameters[0].lr_factor = 1.25;
    expect_invalid([&] { optimizer.step(parameters); }, {"lr of '", "can reach 1.25"});
  }
  for (const auto& [lr, most] : {std::pair(0.5, 2.5), std::pair(1.25, 1.0)}) {
    expect_invalid([&, lr = lr, most = most] { far(lr, most); },
                   {"gamma eta <= 1", "can reach 1.25"});
  }
}

TEST(Constrained, IteratesStayInTheBall) {
  const std::vector<Method> methods = {scion(1, 0.3),
                                       scion(0.05, 0.3),
                                       cg(),
                                       clipped_scion(0.9, 0.5, 3),
                                       clipped_scion(1, 0.2, 0.5, ShortStepForm::ByNorm),
                                       clipped_scion(1, 0.2, 0.5, ShortStepForm::ByDiameter)};
  int steps = 0;
  for (const auto& method : methods) {
    for (std::uint64_t start = 0; start < 20; ++start) {
      Net net(every_norm(), start);
      Random random(start);
      net.move_into_ball(random);
      Optimizer<double> optimizer(method, net.layers);
      for (int k = 0; k < 100; ++k, ++steps) {
        net.new_gradients(random, std::exp(random.normal()));
        optimizer.step(net.parameters());
        ASSERT_LE(net.product_norm(), 1 + 1e-12) << method.name << " start " << start;
      }
    }
  }
  EXPECT_GE(steps, 10000);
}

TEST(Constrained, NegativePairingNeverMovesTheIterate) {
  // A weight far outside its ball, opposite to the gradient: ⟨d, x⟩ + r‖d‖* < 0.
  Net net(one_layer(3, 3, Sign{.unit = true}, 1));
  net.gradients[0].data.assign(9, 1.0);
  net.weights[0].data.assign(9, -7.0);
  const auto before = net.weights[0];
  for (const auto form : {ShortStepForm::Plain, ShortStepForm::ByNorm, ShortStepForm::ByDiameter}) {
    Optimizer<double> optimizer(clipped_scion(0.5, 1, 1, form), net.layers);
    const auto& report = optimizer.step(net.parameters());
    EXPECT_LT(report.pairing, 0);
    EXPECT_EQ(report.eta, 0);
    EXPECT_EQ(net.weights[0], before);
  }
}

TEST(Constrained, StepsThatCouldLeaveTheBallAreRefused) {
  const auto layers = every_norm();
  const auto refused = [&](const Method& method) {
    expect_invalid([&] { Optimizer<double>(method, layers); },
                   {"[Method]", "gamma eta <= 1", "constrained"});
  };
  refused(scion(1.01, 0.1));
  refused(clipped_scion(1.5, 0.1, 600));
  refused(s3cg(2, 1, 1, ShortStep::Variant::ByNorm));
  Method steepest = sd(0.1);
  steepest.constrained = true;
  refused(steepest);
  Optimizer<double> optimizer(scion(1, 0.1), layers);
  expect_invalid([&] { optimizer.set_lr(1.2); }, {"[Method]", "1.2"});
  EXPECT_EQ(optimizer.method().lr, Schedule(1));
}

TEST(Optimizer, AlphaAndRuleMayChangeBetweenSteps) {
  Net changed(every_norm()), fresh(every_norm());
  Optimizer<double> optimizer(ggnc(0.1, 1e9, 0.5), changed.layers);
  Optimizer<double> start(ggnc(0.1, 1e9, 0.5), fresh.layers),
      other(ggnc(0.1, 3, 0.2), fresh.layers);
  optimizer.step(changed.parameters());
  start.step(fresh.parameters());
  std::vector<NamedBuffer<const double>> state;
  for (const auto& buffer : start.state()) state.push_back({buffer.name, buffer.view});
  other.load_state(state, 1);
  optimizer.set_alpha(0.2);
  optimizer.set_rule(Clipped{3});
  EXPECT_EQ(optimizer.step(changed.parameters()).pairing, other.step(fresh.parameters()).pairing);
  EXPECT_EQ(changed.weights, fresh.weights);
  expect_invalid([&] { optimizer.set_alpha(0); }, {"[Method]", "alpha"});
  expect_invalid([&] { optimizer.set_rule(Clipped{-1}); }, {"[Clipped]", "-1"});
  EXPECT_EQ(optimizer.method().alpha, Schedule(0.2));
  EXPECT_EQ(optimizer.method().rule, StepRule(Clipped{3}));
}

TEST(Optimizer, ZeroGradientsChangeNothing) {
  for (const auto name : method_names()) {
    Net net(every_norm());
    Random random(1);
    net.move_into_ball(random);
    for (auto& gradient : net.gradients) gradient.data.assign(gradient.data.size(), 0.0);
    const auto before = net.weights;
    const Method method =
        make_method(name, {.lr = 0.1, .alpha = 0.5, .rho = 1, .beta = 2, .l0 = 1, .l1 = 1});
    const auto report = Optimizer<double>(method, net.layers).step(net.parameters());
    EXPECT_FALSE(std::isnan(report.pairing));
    if (!method.constrained) {
      EXPECT_EQ(net.weights, before) << name;
    }
    for (const auto& weight : net.weights) {
      for (const double entry : weight.data) EXPECT_TRUE(std::isfinite(entry)) << name;
    }
  }
}

TEST(Optimizer, LayersWithoutGradientTakeNoPart) {
  Net net(every_norm()), rest(every_norm());
  Optimizer<double> optimizer(unconstrained_clipped_scion(0.1, 0.5, 10), net.layers);
  auto parameters = net.parameters();
  parameters[2] = Parameter<double>::without_gradient(net.weights[2].view());
  const auto before = net.weights[2];
  const double s = optimizer.step(parameters).pairing;
  EXPECT_EQ(net.weights[2], before);
  rest.layers.erase(rest.layers.begin() + 2);
  rest.weights.erase(rest.weights.begin() + 2);
  rest.gradients.erase(rest.gradients.begin() + 2);
  Optimizer<double> without(unconstrained_clipped_scion(0.1, 0.5, 10), rest.layers);
  EXPECT_EQ(without.step(rest.parameters()).pairing, s);
}

// Weights, momentum and gradients as the options store them, after the same gradients.
std::vector<Matrix<double>> weights_after(const Method& method, Execution execution, int steps,
                                          std::uint64_t seed = 4) {
  Net net(every_norm(), seed);
  Random random(seed);
  net.move_into_ball(random);
  Optimizer<double> optimizer(method, net.layers, execution);
  Net fresh(every_norm(), seed);
  for (auto& gradient : net.gradients) gradient.data.assign(gradient.data.size(), 0.0);
  for (int k = 0; k < steps; ++k) {
    fresh.new_gradients(random);
    for (size_t l = 0; l < net.gradients.size(); ++l) {
      for (size_t i = 0; i < net.gradients[l].data.size(); ++i) {
        auto& entry = net.gradients[l].data[i];
        entry = (execution.light ? entry : 0) + fresh.gradients[l].data[i];
      }
    }
    optimizer.step(net.parameters());
  }
  return net.weights;
}

const std::vector<Method>& memory_methods() {
  static const std::vector<Method> methods = [] {
    auto scheduled = unconstrained_clipped_scion(0.1, 0.3, 20);
    scheduled.alpha = Schedule(0.9, Warmdown{30, 29});
    auto l2 = ggnc(0.1, 5, 0.3);
    l2.combination = Combination::L2;
    auto sum = ggnc(0.1, 5, 0.3);
    sum.combination = Combination::Sum;
    return std::vector<Method>{unconstrained_clipped_scion(0.1, 0.3, 20),
                               clipped_scion(0.1, 0.3, 20),
                               clipped_scion(0.5, 0.3, 1, ShortStepForm::ByNorm),
                               scion(0.1, 0.3),
                               sd(0.01),
                               scheduled,
                               l2,
                               sum};
  }();
  return methods;
}

TEST(Execution, OverwritingGradientsGivesTheSameBits) {
  for (const auto& method : memory_methods()) {
    EXPECT_EQ(weights_after(method, {}, 12),
              weights_after(method, {.overwrite_gradients = true}, 12))
        << method.name;
  }
}

TEST(Execution, LightFormKeepsTheSameAverageInTheGradientBuffer) {
  for (const auto& method : memory_methods()) {
    const auto expected = weights_after(method, {}, 12);
    const auto light = weights_after(method, {.light = true}, 12);
    for (size_t l = 0; l < expected.size(); ++l) {
      EXPECT_LE(max_difference(expected[l], light[l]), 1e-11) << method.name << " layer " << l;
    }
  }
}

// The average of the gradients 1, 0, 0 with alpha .5 is .5, .25, .125.
TEST(Execution, LightFormRefusesAnAlphaThatItDidNotScaleFor) {
  const std::vector<Layer> layers = {{.name = "w", .shape = {1, 1}, .norm = Euclidean{}}};
  Optimizer<double> optimizer(ggnc(1, 1000, 0.7), layers, {.light = true});
  optimizer.set_alpha(0.5);
  double weight = 0, gradient = 1;
  const std::vector<Parameter<double>> parameters = {
      {.weight = {&weight, 1, 1}, .gradient = {&gradient, 1, 1}}};
  EXPECT_NEAR(optimizer.step(parameters).pairing, 0.5, 1e-15);
  expect_invalid([&] { optimizer.set_alpha(0.1); },
                 {"[Optimizer::set_alpha]", "0.1", "'w'", "0.5", "schedule"});
  EXPECT_EQ(optimizer.method().alpha, Schedule(0.5));
  expect_invalid([&] { optimizer.set_alpha(0); }, {"[Method]", "alpha"});
  EXPECT_NEAR(optimizer.step(parameters).pairing, 0.25, 1e-15);
  EXPECT_NEAR(optimizer.step(parameters).pairing, 0.125, 1e-15);
  optimizer.set_steps_taken(0);
  EXPECT_NO_THROW(optimizer.set_alpha(0.1));
}

TEST(Execution, LightFormRefusesALayerLeftOutWhileAlphaChanged) {
  const std::vector<Layer> layers = {{.name = "a", .shape = {1, 1}},
                                     {.name = "b", .shape = {1, 1}}};
  for (const bool changes : {false, true}) {
    const Schedule alpha = changes ? Schedule(0.8, LinearDecay{10}) : Schedule(0.8);
    Optimizer<double> optimizer(unconstrained_scion(0.1, alpha), layers, {.light = true});
    double a = 0, b = 0, g = 1, h = 1;
    const std::vector<Parameter<double>> both = {{{&a, 1, 1}, {&g, 1, 1}},
                                                 {{&b, 1, 1}, {&h, 1, 1}}};
    auto one = both;
    one[1] = Parameter<double>::without_gradient(both[1].weight);
    optimizer.step(both);
    optimizer.step(one);
    if (changes) {
      const double before = a;
      expect_invalid([&] { optimizer.step(both); }, {"[Optimizer::step]", "'b'", "light"});
      EXPECT_EQ(a, before);
      EXPECT_NO_THROW(optimizer.step(one));
    } else {
      EXPECT_NO_THROW(optimizer.step(both));
    }
  }
}

TEST(Execution, ResultsAreBitIdenticalForAnyNumberOfThreads) {
  const std::vector<Layer> layers = {
      {.name = "big", .shape = {.rows = 700, .cols = 400}, .norm = Sign{}},
      {.name = "rows", .shape = {.rows = 3000, .cols = 90}, .norm = RowNorm{}},
      {.name = "long", .shape = {.rows = 300000}, .norm = Rms{}},
      {.name = "a", .shape = {.rows = 60, .cols = 120}, .norm = Spectral{}},
      {.name = "b", .shape = {.rows = 120, .cols = 50}, .norm = Spectral{}},
      {.name = "c", .shape = {.rows = 64, .cols = 64}, .norm = parse_norm("spectral(solver=muon)")},
      {.name = "col", .shape = {.rows = 200, .cols = 100}, .norm = ColNorm{}}};
  // One matrix with more than a thread's share of the work: all threads work on it.
  auto with_large = layers;
  with_large.push_back({.name = "large", .shape = {.rows = 300, .cols = 520}, .norm = Spectral{}});
  for (const auto& model : {layers, with_large}) {
    std::vector<std::vector<Matrix<float>>> results;
    for (const int threads : {1, 2, 4}) {
      Model<float> net(model);
      Optimizer<float> optimizer(clipped_scion(0.1, 0.2, 50, ShortStepForm::ByNorm), net.layers,
                                 {.threads = threads});
      Random random(1);
      for (int k = 0; k < (sanitized ? 3 : 20); ++k) {
        net.new_gradients(random);
        optimizer.step(net.parameters());
      }
      results.push_back(net.weights);
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

TEST(NonFinite, WeightsAndStateStayBitForBit) {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    for (size_t layer = 0; layer < every_norm().size(); ++layer) {
      for (const bool skip : {false, true}) {
        for (const bool overwrite : {false, true}) {
          Net net(every_norm());
          Optimizer<double> optimizer(clipped_scion(0.1, 0.3, 5), net.layers,
                                      {.overwrite_gradients = overwrite,
                                       .nonfinite = skip ? NonFinite::Skip : NonFinite::Throw});
          optimizer.step(net.parameters());
          Random random(layer);
          net.new_gradients(random);
          auto& gradient = net.gradients[layer].data;
          gradient[random.below(gradient.size())] = bad;
          const auto weights = net.weights;
          std::vector<std::vector<double>> state;
          for (const auto& [name, view] : optimizer.state()) {
            state.emplace_back(view.data, view.data + view.size());
          }
          if (skip) {
            const auto& report = optimizer.step(net.parameters());
            EXPECT_TRUE(report.skipped);
            EXPECT_EQ(report.nonfinite_layer, net.layers[layer].name);
          } else {
            expect_error<NonFiniteError>([&] { optimizer.step(net.parameters()); },
                                         {"[Optimizer::step]", "'" + net.layers[layer].name + "'"});
          }
          EXPECT_EQ(net.weights, weights);
          EXPECT_EQ(optimizer.steps_taken(), 1);
          size_t i = 0;
          for (const auto& [name, view] : optimizer.state()) {
            EXPECT_EQ(state[i++], std::vector<double>(view.data, view.data + view.size())) << name;
          }
          net.new_gradients(random);
          EXPECT_FALSE(optimizer.step(net.parameters()).skipped);
        }
      }
    }
  }
}

TEST(TwoPasses, EqualTheStepAndServeShards) {
  const auto layers = every_norm();
  Net whole(layers), sharded(layers);
  const Method method = unconstrained_clipped_scion(0.1, 0.4, 30);
  Optimizer<double> one(method, layers);
  // Two shards of layers, as two machines would hold them: only s crosses between them.
  const std::vector<Layer> first(layers.begin(), layers.begin() + 3);
  const std::vector<Layer> second(layers.begin() + 3, layers.end());
  Optimizer<double> a(method, first), b(method, second);
  Random random(1);
  for (int k = 0; k < 10; ++k) {
    whole.new_gradients(random);
    sharded.gradients = whole.gradients;
    const double s = one.step(whole.parameters()).pairing;
    const auto parameters = sharded.parameters();
    const std::span<const Parameter<double>> all(parameters);
    const double local_a = a.prepare(all.first(3)).pairing;
    const double local_b = b.prepare(all.subspan(3)).pairing;
    EXPECT_NEAR(local_a + local_b, s, 1e-12 * s);
    const double eta = a.eta(local_a + local_b);
    a.apply(eta);
    b.apply(eta);
    for (size_t l = 0; l < layers.size(); ++l) {
      EXPECT_LE(max_difference(whole.weights[l], sharded.weights[l]), 1e-13);
    }
  }
}

TEST(Optimizer, NamesTheLayerWhoseStrideIsTooSmall) {
  Net net(every_norm());
  Optimizer<double> optimizer(sd(0.1), net.layers);
  auto parameters = net.parameters();
  parameters[1].gradient.stride = parameters[1].gradient.cols - 1;
  expect_invalid([&] { optimizer.step(parameters); },
                 {"the gradient of '" + net.layers[1].name + "' has ", "row stride"});
}

TEST(TwoPasses, KeepTheirOrder) {
  Net net(every_norm());
  Optimizer<double> optimizer(sd(0.1), net.layers);
  expect_error<std::logic_error>([&] { optimizer.apply(1); }, {"[Optimizer::apply]", "prepare"});
  expect_error<std::logic_error>([&] { optimizer.require_step(1); },
                                 {"[Optimizer::require_step]", "prepare"});
  optimizer.prepare(net.parameters());
  expect_error<std::logic_error>([&] { optimizer.prepare(net.parameters()); },
                                 {"[Optimizer::prepare]", "abandoned"});
  const auto before = net.weights;
  optimizer.abandon();
  EXPECT_EQ(net.weights, before);
  EXPECT_EQ(optimizer.steps_taken(), 0);
  optimizer.prepare(net.parameters());
  expect_invalid([&] { optimizer.apply(std::nan("")); }, {"[Optimizer::apply]", "finite"});
  expect_invalid([&] { optimizer.apply(-1); }, {"[Optimizer::apply]", "negative"});
}

// A user's Euclidean norm that can be told to fail.
struct Moody final : NormOracle {
  enum Mood { Good, Throws, Nan, Infinite, NormThrows, NormNan };
  mutable std::atomic<Mood> mood = Good;

  void lmo(ConstMatrixView<double> d, MatrixView<double> out) const override {
    normball::lmo(Norm(Euclidean{}), d, out);
    if (mood == Throws) throw std::runtime_error("the oracle is out");
    if (mood == Nan) out(0, 0) = std::nan("");
    if (mood == Infinite) out(0, 0) = HUGE_VAL;
  }
  double norm(ConstMatrixView<double> x) const override {
    if (mood == NormThrows) throw std::runtime_error("the norm is out");
    return mood == NormNan ? std::nan("") : normball::norm(Norm(Euclidean{}), x);
  }
};

// A model with a moody layer among others of every kind: pieces, averages in the caller's memory,
// a basis.
struct Fragile {
  std::shared_ptr<Moody> oracle = std::make_shared<Moody>();
  Net net;
  Execution execution;
  std::vector<Matrix<double>> averages = {};
  Optimizer<double> optimizer;
  Random random{11};

  Fragile(const Method& method, Execution execution_, bool with_oracle = true)
      : net(start(with_oracle)), execution(execution_), optimizer(method, use_oracle(), execution) {
    for (const auto& layer : net.layers) {
      averages.emplace_back(layer.shape.rows, layer.shape.cols);
    }
  }

  // Made once: random numbers would take most of the tests' time.
  static const Net& start(bool with_oracle) {
    static const Net with = make(true), without = make(false);
    return with_oracle ? with : without;
  }
  static Net make(bool with_oracle) {
    auto layers = every_norm();
    layers.push_back({.name = "low",
                      .shape = {.rows = 9, .cols = 7},
                      .norm = parse_norm("spectral(solver=power(rank=2))")});
    if (with_oracle) {
      layers.insert(layers.begin() + 2, {.name = "moody", .shape = {.rows = 6, .cols = 5}});
    }
    layers.push_back({.name = "pieces", .shape = {.rows = 132, .cols = 1000}, .norm = ColNorm{}});
    Net net(layers);
    Random random(5);
    net.move_into_ball(random);
    for (auto& g : net.gradients) g.data.assign(g.data.size(), 0.0);
    return net;
  }
  const std::vector<Layer>& use_oracle() {
    if (net.layers[2].name == "moody") net.layers[2].norm = Custom{oracle};
    return net.layers;
  }

  std::vector<Parameter<double>> parameters() {
    auto result = net.parameters();
    for (size_t l = 0; execution.external_momentum && l < result.size(); ++l) {
      result[l].momentum = averages[l].view();
    }
    return result;
  }

  // In light form the buffer holds the average: gradients are added to it.
  void new_gradients() {
    for (auto& gradient : net.gradients) {
      for (auto& entry : gradient.data)
        entry = (execution.light ? entry : 0) + random.uniform() - 0.5;
    }
  }

  // All that outlasts a step.
  std::vector<std::vector<double>> snapshot() {
    std::vector<std::vector<double>> result;
    for (const auto& weight : net.weights) result.push_back(weight.data);
    for (const auto& average : averages) result.push_back(average.data);
    for (const auto& [name, view] : optimizer.state()) {
      result.emplace_back(view.data, view.data + view.size());
    }
    if (!execution.overwrite_gradients) {
      for (const auto& gradient : net.gradients) result.push_back(gradient.data);
    }
    result.push_back({static_cast<double>(optimizer.steps_taken())});
    return result;
  }
};

const std::vector<Execution>& every_execution() {
  static const std::vector<Execution> all = {
      {.threads = 1},
      {.threads = 2},
      {.threads = 2, .overwrite_gradients = true},
      {.threads = 2, .light = true},
      {.threads = 2, .external_momentum = true},
      {.threads = 1, .overwrite_gradients = true, .external_momentum = true}};
  return all;
}

// fail(model) makes one step fail and heals the model; what follows must be as if it never was.
template <class Fail>
void expect_untouched(const Method& method, Execution execution, bool with_oracle,
                      const Fail& fail) {
  Fragile model(method, execution, with_oracle), peer(method, execution, with_oracle);
  for (int k = 0; k < 4; ++k) {
    model.new_gradients();
    peer.new_gradients();
    if (k != 1) {
      const auto gradients = model.net.gradients;
      const auto before = model.snapshot();
      fail(model);
      EXPECT_TRUE(model.snapshot() == before) << "step " << k;
      model.net.gradients = gradients;
    }
    model.optimizer.step(model.parameters());
    peer.optimizer.step(peer.parameters());
    EXPECT_TRUE(model.snapshot() == peer.snapshot()) << "step " << k;
  }
}

std::vector<Method> failing_methods() {
  return {unconstrained_clipped_scion(0.1, 0.3, 20), clipped_scion(0.1, 0.3, 5),
          clipped_scion(0.5, 0.3, 1, ShortStepForm::ByNorm), scion(0.1, 1)};
}

TEST(AllOrNothing, AUsersNormThatThrows) {
  for (const auto& method : failing_methods()) {
    for (const auto& execution : every_execution()) {
      const auto fail_in = [](Moody::Mood mood, const char* text) {
        return [=](Fragile& model) {
          model.oracle->mood = mood;
          try {
            model.optimizer.step(model.parameters());
            ADD_FAILURE() << "no exception";
          } catch (const std::runtime_error& error) {
            EXPECT_EQ(error.what(), std::string("[Optimizer] layer 'moody': ") + text);
          }
          EXPECT_THROW(model.optimizer.prepare(model.parameters()), std::runtime_error);
          model.optimizer.abandon();
          model.oracle->mood = Moody::Good;
        };
      };
      expect_untouched(method, execution, true, fail_in(Moody::Throws, "the oracle is out"));
      if (needs_direction_norm(method.rule) && !execution.overwrite_gradients) {
        expect_untouched(method, execution, true, fail_in(Moody::NormThrows, "the norm is out"));
      }
    }
  }
}

TEST(AllOrNothing, AUsersNormThatIsNotFinite) {
  for (const auto& method : failing_methods()) {
    for (auto execution : every_execution()) {
      for (const bool skip : {false, true}) {
        execution.nonfinite = skip ? NonFinite::Skip : NonFinite::Throw;
        for (const auto mood : {Moody::Nan, Moody::Infinite}) {
          expect_untouched(method, execution, true, [&](Fragile& model) {
            model.oracle->mood = mood;
            if (skip) {
              const auto& report = model.optimizer.step(model.parameters());
              EXPECT_TRUE(report.skipped);
              EXPECT_EQ(report.nonfinite_layer, "moody");
              EXPECT_EQ(report.eta, 0);
            } else {
              expect_error<NonFiniteError>([&] { model.optimizer.step(model.parameters()); },
                                           {"[Optimizer::step]", "s is not finite", "'moody'"});
            }
            model.oracle->mood = Moody::Good;
          });
        }
      }
    }
  }
}

TEST(AllOrNothing, WeightsThatAreNotFinite) {
  const size_t count = Fragile(scion(0.1, 1), {}).net.layers.size();
  for (const auto& method : failing_methods()) {
    if (!method.constrained) continue;
    for (auto execution : every_execution()) {
      for (size_t l = 0; l < count; ++l) {
        const bool skip = l % 2 == 0;
        execution.nonfinite = skip ? NonFinite::Skip : NonFinite::Throw;
        Fragile model(method, execution);
        model.new_gradients();
        model.optimizer.step(model.parameters());
        model.new_gradients();
        auto& entry = model.net.weights[l].data[3];
        const double good = entry;
        entry = l % 3 == 0 ? std::nan("") : HUGE_VAL;
        auto before = model.snapshot();
        if (skip) {
          EXPECT_TRUE(model.optimizer.step(model.parameters()).skipped);
        } else {
          expect_error<NonFiniteError>(
              [&] { model.optimizer.step(model.parameters()); },
              {"[Optimizer::step]", "the weight of '" + model.net.layers[l].name + "'", "finite"});
        }
        entry = before[l][3] = good;
        EXPECT_TRUE(model.snapshot() == before);
        EXPECT_FALSE(model.optimizer.step(model.parameters()).skipped);
      }
    }
  }
}

// Finite gradients whose s, or lr times s, has no number.
TEST(AllOrNothing, WhatOverflows) {
  for (const auto& method :
       {unconstrained_clipped_scion(0.1, 0.3, 20), clipped_scion(0.1, 0.3, 5),
        Method{.rule = Steepest{}, .lr = 1e305, .alpha = 0.3},
        Method{.rule = Steepest{}, .lr = 1e305, .alpha = 0.3, .norm = Euclidean{}}}) {
    const bool in_s = !std::holds_alternative<Steepest>(method.rule);
    for (const auto& execution : every_execution()) {
      if (execution.overwrite_gradients) continue;
      for (const size_t l : {size_t{0}, size_t{2}, size_t{3}, size_t{4}}) {
        Fragile model(method, execution, false);
        model.optimizer.set_lr(0.1);
        model.new_gradients();
        model.optimizer.step(model.parameters());
        model.optimizer.set_lr(method.lr);
        model.new_gradients();
        const auto gradients = model.net.gradients;
        if (in_s) {
          for (auto& entry : model.net.gradients[l].data) entry = entry > 0 ? 1.5e308 : -1.5e308;
        } else {
          for (auto& entry : model.net.gradients[l].data) entry *= 1e10;
        }
        const auto before = model.snapshot();
        EXPECT_ANY_THROW(model.optimizer.step(model.parameters())) << method.name << l;
        EXPECT_TRUE(model.snapshot() == before) << to_string(method.rule) << ' ' << l;
        model.net.gradients = gradients;
        model.optimizer.set_lr(0.1);
        EXPECT_NO_THROW(model.optimizer.step(model.parameters()));
      }
    }
  }
}

// Sums of floats are in double; the step itself must fit a float.
TEST(AllOrNothing, AStepBeyondFloats) {
  std::vector<float> weight = {1, 2, 3}, gradient = {1, -1, 2}, momentum = {4, 5, 6};
  const auto weight_before = weight, momentum_before = momentum;
  const std::vector<Layer> layers = {
      {.name = "w", .shape = {.rows = 1, .cols = 3}, .norm = Sign{.unit = true}, .radius = 1}};
  const std::vector<Parameter<float>> parameters = {{.weight = {weight.data(), 1, 3},
                                                     .gradient = {gradient.data(), 1, 3},
                                                     .momentum = {momentum.data(), 1, 3}}};
  for (const Method& method :
       {unconstrained_scion(1e39, 0.5), Method{.rule = Steepest{}, .lr = 1e38, .alpha = 0.5}}) {
    Optimizer<float> optimizer(method, layers, {.external_momentum = true});
    expect_invalid([&] { optimizer.step(parameters); },
                   {"[Optimizer::apply]", "the step of 'w'", "lower the lr"});
    EXPECT_EQ(weight, weight_before);
    EXPECT_EQ(momentum, momentum_before);
    EXPECT_EQ(optimizer.steps_taken(), 0);
    optimizer.set_lr(0.5);
    optimizer.step(parameters);
    EXPECT_NE(weight, weight_before);
    weight = weight_before;
    momentum = momentum_before;
  }
}

TEST(OptimizerErrors, NameMemoryThatIsShared) {
  std::vector<double> a(6, 1.0), b(6, 1.0), g(6, 1.0), h(6, 1.0), d(6), e(6);
  const std::vector<Layer> layers = {{.name = "a", .shape = {.rows = 2, .cols = 3}},
                                     {.name = "b", .shape = {.rows = 2, .cols = 3}}};
  const auto view = [](std::vector<double>& x) { return MatrixView<double>(x.data(), 2, 3); };
  const auto expect = [&](Execution execution, std::vector<double>& w,
                          std::vector<double>& gradient, std::vector<double>& m,
                          const std::vector<std::string>& parts) {
    Optimizer<double> optimizer(unconstrained_scion(0.1, 0.5), layers, execution);
    std::vector<Parameter<double>> parameters = {{.weight = view(a), .gradient = view(g)},
                                                 {.weight = view(w), .gradient = view(gradient)}};
    if (execution.external_momentum) {
      parameters[0].momentum = view(d);
      parameters[1].momentum = view(m);
    }
    if (parts.empty()) {
      EXPECT_NO_THROW(optimizer.step(parameters));
    } else {
      expect_invalid([&] { optimizer.step(parameters); }, parts);
    }
  };
  const Execution external{.external_momentum = true};
  expect(external, b, h, e, {});
  expect(external, b, g, e, {});  // read alone
  expect(external, b, b, e, {});  // the gradient of ‖x‖²/2
  expect(external, a, h, e, {"[Optimizer::step]", "weight of 'a'", "weight of 'b'"});
  expect(external, b, h, b, {"weight of 'b'", "momentum of 'b'"});
  expect(external, b, h, d, {"momentum of 'a'", "momentum of 'b'"});
  expect({.light = true}, b, g, e, {"gradient of 'a'", "gradient of 'b'"});
  expect({.overwrite_gradients = true}, b, b, e, {"weight of 'b'", "gradient of 'b'"});
  for (const Execution& execution : {external, Execution{}}) {
    expect(execution, b, a, e, {"weight of 'a'", "gradient of 'b'", "reads the other"});
  }
  expect(external, b, d, e, {"momentum of 'a'", "gradient of 'b'", "reads the other"});
  expect({.overwrite_gradients = true}, b, a, e, {"weight of 'a'", "gradient of 'b'"});
}

TEST(OptimizerErrors, NameAMomentumThatNothingWouldUse) {
  std::vector<double> w(6, 1.0), g(6, 1.0), d(6);
  const auto view = [](std::vector<double>& x) { return MatrixView<double>(x.data(), 2, 3); };
  const std::vector<Parameter<double>> parameters = {
      {.weight = view(w), .gradient = view(g), .momentum = view(d)}};
  for (const Execution& execution : {Execution{}, Execution{.light = true}}) {
    Optimizer<double> optimizer(unconstrained_scion(0.1, 0.5),
                                {{.name = "a", .shape = {.rows = 2, .cols = 3}}}, execution);
    expect_invalid([&] { optimizer.step(parameters); },
                   {"[Optimizer::step]", "'a'", "external_momentum"});
  }
}

// A gradient that is only read, beside one that the step writes to.
TEST(OptimizerErrors, NameAGradientThatIsReadWhereAnotherIsOverwritten) {
  const std::vector<Layer> layers = {
      {.name = "spectral", .shape = {.rows = 2, .cols = 3}, .norm = Spectral{}},
      {.name = "sign", .shape = {.rows = 2, .cols = 3}, .norm = Sign{}}};
  std::vector<double> v(6, 1.0), w(6, 1.0), g = {1, 2, 3, 4, 5, 6, 7};
  const auto step = [&](Execution execution, size_t offset) {
    Optimizer<double>(unconstrained_scion(0.1, 1), layers, execution)
        .step(std::vector<Parameter<double>>{{{v.data(), 2, 3}, {g.data(), 2, 3}},
                                             {{w.data(), 2, 3}, {g.data() + offset, 2, 3}}});
  };
  for (const size_t offset : {0, 1}) {
    EXPECT_NO_THROW(step({}, offset));
    const auto before = std::vector{v, w, g};
    expect_invalid([&] { step({.overwrite_gradients = true}, offset); },
                   {"[Optimizer::step]", "gradient of 'spectral'", "gradient of 'sign'"});
    EXPECT_EQ(before, (std::vector{v, w, g}));
  }
}

TEST(OptimizerErrors, NameMemoryThatOverlapsInPart) {
  const std::vector<Layer> layers = {{.name = "a", .shape = {.rows = 3, .cols = 2}},
                                     {.name = "b", .shape = {.rows = 3, .cols = 2}}};
  std::vector<double> w(20, 1.0), g(20, 1.0);
  const auto step = [&](MatrixView<double> a, MatrixView<double> b) {
    Optimizer<double>(unconstrained_scion(0.1, 1), layers)
        .step(std::vector<Parameter<double>>{{a, {g.data(), 3, 2}}, {b, {g.data() + 6, 3, 2}}});
  };
  const auto scale = [&](MatrixView<double> a, MatrixView<double> b) {
    Optimizer<double>(unconstrained_scion(0.1, 1), layers)
        .scale_into_balls(std::vector<Parameter<double>>{{a, {}}, {b, {}}});
  };
  EXPECT_NO_THROW(step({w.data(), 3, 2}, {w.data() + 6, 3, 2}));
  EXPECT_NO_THROW(step({w.data(), 3, 2, 4}, {w.data() + 2, 3, 2, 4}));  // columns side by side
  for (const auto& [a, b] : {std::pair(MatrixView(w.data(), 3, 2), MatrixView(w.data() + 5, 3, 2)),
                             {{w.data(), 3, 2, 4}, {w.data() + 1, 3, 2, 4}},
                             {{w.data(), 3, 2, 6}, {w.data() + 8, 3, 2, 2}}}) {
    expect_invalid([&] { step(a, b); }, {"[Optimizer::step]", "'a'", "'b'", "share memory"});
    expect_invalid([&] { step(b, a); }, {"[Optimizer::step]", "'a'", "'b'", "share memory"});
    const auto before = w;
    expect_invalid([&] { scale(a, b); },
                   {"[Optimizer::scale_into_balls]", "'a'", "'b'", "share memory"});
    EXPECT_EQ(w, before);
  }
  EXPECT_NO_THROW(scale({w.data(), 3, 2, 4}, {w.data() + 2, 3, 2, 4}));
  EXPECT_EQ(w[19], 1.0);
}

// A norm that fails as it is told to.
template <class Error>
struct Failing final : NormOracle {
  using NormOracle::lmo;
  void lmo(ConstMatrixView<double>, MatrixView<double>) const override {
    throw Error("[Failing] no luck");
  }
};
struct OwnError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(OptimizerErrors, OfAUsersNormNameTheLayer) {
  const auto expect = [&]<class Error>(const std::vector<std::string>& parts, Error*) {
    const std::vector<Layer> layers = {
        {.name = "good", .shape = {2, 2}},
        {.name = "mine", .shape = {2, 2}, .norm = Custom{std::make_shared<Failing<Error>>()}}};
    Net net(layers);
    Optimizer<double> optimizer(unconstrained_scion(0.1, 1), layers);
    expect_error<Error>([&] { optimizer.step(net.parameters()); }, parts);
  };
  expect({"[Optimizer]", "layer 'mine'", "no luck"}, static_cast<std::invalid_argument*>(nullptr));
  expect({"[Optimizer]", "layer 'mine'", "no luck"}, static_cast<std::runtime_error*>(nullptr));
  expect({"[Failing] no luck"}, static_cast<OwnError*>(nullptr));
}

// Momenta of the caller's are not the optimizer's to trust.
TEST(AllOrNothing, MomentaThatAreNotFinite) {
  for (const bool overwrite : {false, true}) {
    for (size_t l = 0; l < every_norm().size(); ++l) {
      Fragile model(unconstrained_clipped_scion(0.1, 0.3, 20),
                    {.overwrite_gradients = overwrite, .external_momentum = true}, false);
      model.new_gradients();
      model.averages[l].data[1] = HUGE_VAL;
      const auto weights = model.net.weights;
      expect_error<NonFiniteError>(
          [&] { model.optimizer.step(model.parameters()); },
          {"[Optimizer::step]", "the momentum of '" + model.net.layers[l].name + "'"});
      EXPECT_EQ(model.net.weights, weights);
      EXPECT_EQ(model.optimizer.steps_taken(), 0);
    }
  }
}

TEST(AllOrNothing, WhatIsUndoableLeavesNoTrace) {
  for (const auto& method : failing_methods()) {
    Fragile model(method, {.undoable = true});
    model.new_gradients();
    model.optimizer.step(model.parameters());
    model.new_gradients();
    const auto before = model.snapshot();
    model.optimizer.prepare(model.parameters());
    model.optimizer.abandon();
    EXPECT_TRUE(model.snapshot() == before) << method.name;
    // Nor does it change what a step computes.
    Fragile other(method, {});
    Fragile again(method, {.undoable = true});
    for (auto* each : {&other, &again}) {
      each->net.gradients = model.net.gradients;
      each->optimizer.step(each->parameters());
    }
    EXPECT_EQ(other.net.weights, again.net.weights) << method.name;
  }
}

// What abandon() does, and an error that comes too late to undo: all averages have the gradients.
TEST(AllOrNothing, AbandonedGradientsAreInEveryAverage) {
  for (const bool late : {false, true}) {
    for (const bool overwrite : {false, true}) {
      Method method = unconstrained_clipped_scion(0.1, 0.3, 20);
      if (late) method.rule = ShortStep{.rho = 20};  // asks for ‖v‖ when all directions are there
      Fragile model(method, {.overwrite_gradients = overwrite});
      model.new_gradients();
      const auto gradients = model.net.gradients;
      const auto weights = model.net.weights;
      const auto expect_taken = [&](double factor) {
        size_t l = 0;
        for (const auto& [name, view] : model.optimizer.state()) {
          if (!name.starts_with("momentum.")) continue;
          for (Index i = 0; i < view.size(); ++i) {
            const double g = gradients[l].data[static_cast<size_t>(i)];
            ASSERT_NEAR(view.data[i], factor * g, 1e-15 * std::abs(g)) << name;
          }
          ++l;
        }
        EXPECT_EQ(l, gradients.size());
        EXPECT_EQ(model.net.weights, weights);
        EXPECT_EQ(model.optimizer.steps_taken(), 0);
      };
      model.optimizer.prepare(model.parameters());
      expect_invalid([&] { model.optimizer.apply(std::nan("")); }, {"[Optimizer::apply]"});
      model.optimizer.abandon();
      model.optimizer.abandon();  // once is enough
      expect_taken(0.3);
      if (!late || !overwrite) continue;
      model.net.gradients = gradients;
      model.oracle->mood = Moody::NormThrows;
      EXPECT_THROW(model.optimizer.step(model.parameters()), std::runtime_error);
      expect_taken(0.3 + 0.7 * 0.3);
      model.net.gradients = gradients;
      model.oracle->mood = Moody::NormNan;
      EXPECT_THROW(model.optimizer.step(model.parameters()), NonFiniteError);
      expect_taken(1 - 0.7 * 0.7 * 0.7);
    }
  }
}

TEST(Optimizer, IsMovedAndNotCopied) {
  static_assert(!std::is_copy_constructible_v<Optimizer<float>>);
  static_assert(!std::is_copy_assignable_v<Optimizer<double>>);
  static_assert(std::is_nothrow_move_constructible_v<Optimizer<float>>);
  static_assert(std::is_nothrow_move_assignable_v<Optimizer<double>>);
  for (const auto& execution : every_execution()) {
    const Method method = clipped_scion(0.1, 0.3, 5);
    Fragile moved(method, execution), peer(method, execution);
    const auto step = [](Fragile& model, Optimizer<double>& optimizer) {
      model.new_gradients();
      optimizer.step(model.parameters());
    };
    step(moved, moved.optimizer);
    step(peer, peer.optimizer);
    const auto buffers = moved.optimizer.state();
    Optimizer<double> other = std::move(moved.optimizer);
    const auto parameters = moved.parameters();
    expect_invalid([&] { moved.optimizer.step(parameters); }, {"[Optimizer::step]", "0 layers"});
    EXPECT_TRUE(moved.optimizer.state().empty());
    moved.optimizer.abandon();
    for (size_t i = 0; i < buffers.size(); ++i) {  // a caller's views stay valid
      EXPECT_EQ(other.state()[i].view.data, buffers[i].view.data);
    }
    step(moved, other);
    step(peer, peer.optimizer);
    moved.optimizer = std::move(other);
    step(moved, moved.optimizer);
    step(peer, peer.optimizer);
    EXPECT_TRUE(moved.snapshot() == peer.snapshot());
  }
}

TEST(Optimizer, AStepWithoutAnyGradientIsNone) {
  Net net(every_norm());
  for (const auto& execution : every_execution()) {
    if (execution.external_momentum) continue;
    Optimizer<double> optimizer(scion(0.1, 0.5), net.layers, execution);
    std::vector<Parameter<double>> parameters;
    for (auto& weight : net.weights) {
      parameters.push_back(Parameter<double>::without_gradient(weight.view()));
    }
    const auto before = net.weights;
    const auto& report = optimizer.step(parameters);
    EXPECT_TRUE(report.skipped);
    EXPECT_EQ(report.nonfinite_layer, "");
    EXPECT_EQ(optimizer.steps_taken(), 0);
    EXPECT_EQ(net.weights, before);
    // A shard without gradients still takes part in the steps of the others.
    optimizer.prepare(parameters);
    optimizer.apply(1);
    EXPECT_EQ(optimizer.steps_taken(), 1);
  }
}

TEST(Report, ClippedIsSaidOnlyByRulesThatClip) {
  for (const auto name : method_names()) {
    Net net(every_norm());
    const Method method =
        make_method(name, {.lr = 0.1, .alpha = 1, .rho = 1e-3, .beta = 2, .l0 = 1, .l1 = 1});
    Optimizer<double> optimizer(method, net.layers);
    const auto& report = optimizer.step(net.parameters());
    const bool clips =
        name.find("clipped") != std::string::npos || name == "ggnc" || name == "s3cg";
    EXPECT_EQ(report.clipped, clips) << name;
  }
}

TEST(Constrained, WeightsOutsideAreReportedAndScaledIn) {
  for (const auto combination : {Combination::Max, Combination::Sum, Combination::L2}) {
    Net net(every_norm());
    for (size_t l = 0; l < net.layers.size(); ++l) {
      if (l == 2) continue;  // one layer is inside and stays as it is
      for (auto& entry : net.weights[l].data) entry *= 100;
    }
    for (auto& entry : net.weights[2].data) entry *= 1e-3;
    Method method = clipped_scion(0.5, 1, 1);
    method.combination = combination;
    Optimizer<double> optimizer(method, net.layers);
    for (size_t l = 0; l < net.layers.size(); ++l) {  // downhill is outward
      for (size_t i = 0; i < net.weights[l].data.size(); ++i) {
        net.gradients[l].data[i] = -net.weights[l].data[i];
      }
    }
    const auto before = net.weights;
    EXPECT_TRUE(optimizer.step(net.parameters()).stalled);
    EXPECT_EQ(net.weights, before);
    const auto views = net.weight_views();
    const auto size = [&] {
      return ProductNorm(net.layers, combination).norm(std::span<const MatrixView<double>>(views));
    };
    const double outside = size();
    EXPECT_EQ(optimizer.scale_into_balls(net.parameters()), outside);
    EXPECT_NEAR(size(), 1, 1e-12);
    for (size_t l = 0; l < net.layers.size(); ++l) {
      const double own =
          norm(net.layers[l].norm, Matrix<double>(before[l]).view(), &net.layers[l].shape) /
          net.layers[l].radius;
      const double factor = combination == Combination::Max ? std::min(1.0, 1 / own) : 1 / outside;
      for (size_t i = 0; i < before[l].data.size(); ++i) {
        ASSERT_NEAR(net.weights[l].data[i], factor * before[l].data[i],
                    1e-12 * std::abs(before[l].data[i]));
      }
    }
    Random random(3);
    net.new_gradients(random);
    EXPECT_FALSE(optimizer.step(net.parameters()).stalled);

    net.weights[4].data[0] = std::nan("");
    for (auto& entry : net.weights[0].data) entry *= 10;
    const auto larger = net.weights[0];
    expect_error<NonFiniteError>([&] { optimizer.scale_into_balls(net.parameters()); },
                                 {"[Optimizer::scale_into_balls]", "'col'"});
    EXPECT_EQ(net.weights[0], larger);
  }
}

TEST(Report, WeightNormsOfDivergedWeightsAreNotFinite) {
  Net net(every_norm());
  for (auto& weight : net.weights) weight.data[1] = std::nan("");
  Optimizer<double> optimizer(unconstrained_scion(0.1, 1), net.layers,
                              {.report_weight_norms = true});
  for (const auto& layer : optimizer.step(net.parameters()).layers) {
    EXPECT_TRUE(std::isnan(layer.weight_norm));
  }
}

TEST(Report, LayersAddUpAndNormsAndErrorsComeIfAsked) {
  Net net(every_norm());
  Random random(1);
  net.move_into_ball(random);
  const double size = net.product_norm();
  Optimizer<double> optimizer(clipped_scion(0.1, 0.5, 3), net.layers,
                              {.report_weight_norms = true, .report_polar_errors = true});
  const auto& report = optimizer.step(net.parameters());
  double s = 0, largest = 0;
  for (const auto& layer : report.layers) {
    s += layer.pairing;
    largest = std::max(largest, layer.weight_norm);
  }
  EXPECT_NEAR(s, report.pairing, 1e-12 * s);
  EXPECT_NEAR(largest, size, 1e-12);
  EXPECT_GT(report.layers[0].polar_error.orthogonality, 0);
  EXPECT_LT(report.layers[0].polar_error.orthogonality, 1e-12);
  EXPECT_LT(report.layers[0].polar_error.asymmetry, 1e-12);
  EXPECT_EQ(report.lr, 0.1);
  EXPECT_NEAR(report.gamma, 0.1 / 3, 1e-16);
}

TEST(State, ResumedRunIsBitIdentical) {
  auto layers = every_norm();
  layers[1].norm = parse_norm("spectral(solver=power(rank=2))");
  const Method method = [] {
    auto m = unconstrained_clipped_scion(0.1, 0.3, 20);
    m.lr = Schedule(0.1, LinearDecay{40});
    return m;
  }();
  Net a(layers), b(layers);
  Random random(1), again(1);
  Optimizer<double> first(method, layers), uninterrupted(method, layers);
  const auto run = [](Optimizer<double>& optimizer, Net& net, Random& r, int steps) {
    for (int k = 0; k < steps; ++k) {
      net.new_gradients(r);
      optimizer.step(net.parameters());
    }
  };
  run(uninterrupted, b, again, 20);
  run(first, a, random, 10);
  Optimizer<double> resumed(method, layers);
  std::vector<NamedBuffer<const double>> saved;
  for (const auto& [name, view] : first.state()) saved.push_back({name, view});
  EXPECT_EQ(saved.size(), layers.size() + 1);
  resumed.load_state(saved, first.steps_taken());
  run(resumed, a, random, 10);
  EXPECT_EQ(a.weights, b.weights);
  EXPECT_EQ(resumed.steps_taken(), 20);
}

TEST(StateErrors, LeaveEverythingAsItWas) {
  Net net(every_norm());
  Optimizer<double> optimizer(scion(0.1, 0.5), net.layers);
  optimizer.step(net.parameters());
  std::vector<NamedBuffer<const double>> saved;
  for (const auto& [name, view] : optimizer.state()) saved.push_back({name, view});
  Optimizer<double> other(scion(0.1, 0.5), net.layers);
  const auto untouched = [&] {
    for (const auto& [name, view] : other.state()) {
      for (Index i = 0; i < view.size(); ++i) EXPECT_EQ(view.data[i], 0);
    }
    EXPECT_EQ(other.steps_taken(), 0);
  };
  const auto refuse = [&](std::vector<NamedBuffer<const double>> buffers, std::int64_t steps,
                          const std::vector<std::string>& parts) {
    expect_invalid([&] { other.load_state(buffers, steps); }, parts);
    untouched();
  };
  refuse({}, 1, {"[Optimizer::load_state]", "0 buffers", "7"});
  refuse(saved, -1, {"[Optimizer::load_state]", "-1"});
  auto renamed = saved;
  renamed.back().name = "momentum.other";
  refuse(renamed, 1, {"[Optimizer::load_state]", "'momentum.bias'"});
  auto misshapen = saved;
  misshapen[3].view.rows -= 1;
  refuse(misshapen, 1, {"[Optimizer::load_state]", "momentum.row", "5x4", "6x4"});
  auto broken = saved;
  Matrix<double> nan(9, 1, {1, 2, std::nan(""), 4, 5, 6, 7, 8, 9});
  broken.back().view = nan.view();
  refuse(broken, 1, {"[Optimizer::load_state]", "momentum.bias", "finite"});
}

TEST(OptimizerErrors, NameLayerValueAndWhatIsAllowed) {
  using Opt = Optimizer<double>;
  auto layers = every_norm();
  const Method good = scion(0.1, 0.5);
  for (const double radius : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    auto bad = layers;
    bad[2].radius = radius;
    expect_invalid([&] { Opt(good, bad); }, {"[Layer]", "'sign'", "radius", "positive"});
  }
  for (const double alpha : {0.0, -0.1, 1.5, std::nan("")}) {
    expect_invalid([&] { Opt(scion(0.1, alpha), layers); }, {"]"});
  }
  expect_invalid([&] { Opt(scion(0.1, 1.5), layers); }, {"[Method]", "alpha", "(0, 1]", "1.5"});
  expect_invalid([&] { Opt(sd(-1), layers); }, {"[Method]", "lr", "-1"});
  expect_invalid([&] { Opt(sd(std::nan("")), layers); }, {"[Schedule]", "nan"});
  expect_invalid([&] { Opt(ggnc(0.1, std::nan("")), layers); }, {"[Clipped]", "rho", "nan"});
  for (const int threads : {-1, 4097, 100000}) {
    expect_invalid([&] { Opt(good, layers, {.threads = threads}); },
                   {"[Optimizer]", "threads", "0", "4096", std::to_string(threads)});
  }
  expect_invalid([&] { Opt(good, layers, {.overwrite_gradients = true, .light = true}); },
                 {"[Optimizer]", "light"});
  auto twice = layers;
  twice[1].name = "sign";
  expect_invalid([&] { Opt(good, twice); }, {"[Optimizer]", "'sign'"});

  Net net(layers);
  Opt optimizer(good, layers);
  auto parameters = net.parameters();
  parameters.pop_back();
  expect_invalid([&] { optimizer.step(parameters); }, {"[Optimizer::step]", "6", "7"});
  parameters = net.parameters();
  std::swap(parameters[3], parameters[4]);
  expect_invalid([&] { optimizer.step(parameters); },
                 {"[Optimizer::step]", "weight of 'row'", "5x9", "6x4"});
  parameters = net.parameters();
  parameters[0].gradient = net.gradients[2].view();
  expect_invalid([&] { optimizer.step(parameters); },
                 {"[Optimizer::step]", "gradient of 'spectral'", "7x5", "8x12"});
  parameters = net.parameters();
  parameters[0].gradient.data = nullptr;
  expect_invalid([&] { optimizer.step(parameters); }, {"[Optimizer::step]", "gradient", "null"});
  parameters = net.parameters();
  parameters[0].weight.data = nullptr;
  expect_invalid([&] { optimizer.step(parameters); }, {"[Optimizer::step]", "weight", "null"});
  EXPECT_EQ(optimizer.steps_taken(), 0);

  const Method decaying = unconstrained_scion(0.1, Schedule(1, LinearDecay{2}));
  for (const bool light : {false, true}) {
    Opt ends(decaying, layers, {.light = light});
    for (int k = 0; k < 2; ++k) ends.step(net.parameters());
    expect_invalid([&] { ends.step(net.parameters()); }, {"[Optimizer::step]", "alpha", "linear"});
  }
}

}  // namespace
}  // namespace normball::testing
