#include "normball/rules_with_memory.h"

#include "model.h"
#include "normball/joint_step.h"

namespace normball::testing {
namespace {

using Net = Model<double>;

const std::vector<StepRule>& rules() {
  static const std::vector<StepRule> all = {
      AdaGrad{},           AdaGrad{.b0 = 3},
      DistanceAware{},     DistanceAware{.first = 0.01, .most = 0.5},
      Momo{.f_star = 0.1}, AutoClipped{}};
  return all;
}

Method with(const StepRule& rule, bool constrained = false, double alpha = 0.3) {
  return make_method(constrained ? "scion" : "unconstrained_scion",
                     {.lr = constrained ? 0.05 : 0.5, .alpha = alpha, .stepsize = rule});
}

// A loss that a rule may be given: any number above f_star.
double loss_at(int k) { return 1 + 0.5 * std::cos(k); }

std::vector<NamedBuffer<const double>> saved(Optimizer<double>& optimizer) {
  std::vector<NamedBuffer<const double>> result;
  for (const auto& [name, view] : optimizer.state()) result.push_back({name, view});
  return result;
}

double dot(const std::vector<Matrix<double>>& a, const std::vector<Matrix<double>>& x,
           const std::vector<Matrix<double>>& y) {
  double sum = 0;
  for (size_t l = 0; l < a.size(); ++l) {
    for (size_t i = 0; i < a[l].data.size(); ++i) {
      sum += a[l].data[i] * (x[l].data[i] - y[l].data[i]);
    }
  }
  return sum;
}

double distance(const Net& net, const std::vector<Matrix<double>>& from) {
  Net moved = net;
  for (size_t l = 0; l < from.size(); ++l) moved.weights[l] = minus(net.weights[l], 1, from[l]);
  return moved.product_norm();
}

TEST(AdaGrad, DividesByTheRootOfTheSumOfSquares) {
  for (const double b0 : {0.0, 3.0}) {
    Net net(every_norm(), 5);
    Random random(3);
    Optimizer<double> optimizer(with(AdaGrad{b0}), net.layers);
    double sum = b0 * b0;
    for (int k = 0; k < 20; ++k) {
      net.new_gradients(random, k % 3 == 0 ? 1 : 0.01);
      const StepReport& report = optimizer.step(net.parameters());
      sum += report.pairing * report.pairing;
      EXPECT_NEAR(report.eta, report.pairing / std::sqrt(sum), 1e-13);
      EXPECT_NEAR(optimizer.rule_memory()[0], std::sqrt(sum), 1e-12 * std::sqrt(sum));
    }
  }
}

// The scale of the loss is none of the user's business where b0 = 0; 2^k is exact.
TEST(RulesWithMemory, DoNotSeeTheScaleOfTheLoss) {
  for (const StepRule& rule : {StepRule(AdaGrad{}), StepRule(DistanceAware{}), StepRule(Momo{}),
                               StepRule(AutoClipped{})}) {
    Net a(every_norm(), 5), b = a;
    Random random(3);
    Optimizer<double> first(with(rule), a.layers), second(with(rule), b.layers);
    for (int k = 0; k < 10; ++k) {
      a.new_gradients(random);
      for (size_t l = 0; l < a.gradients.size(); ++l) {
        b.gradients[l] = a.gradients[l];
        for (double& g : b.gradients[l].data) g *= 4096;
      }
      first.step(a.parameters(), loss_at(k));
      second.step(b.parameters(), 4096 * loss_at(k));
      for (size_t l = 0; l < a.weights.size(); ++l) {
        EXPECT_LT(max_difference(a.weights[l], b.weights[l]), 1e-12) << rule << ", step " << k;
      }
    }
  }
}

TEST(DistanceAware, StepsAsFarAsItHasTravelled) {
  for (const double most : {HUGE_VAL, 0.05}) {
    Net net(every_norm(), 5);
    const auto start = net.weights;
    Random random(3);
    Method method = with(DistanceAware{.first = 1e-3, .most = most}, false, 1);
    method.lr = 1;
    Optimizer<double> optimizer(method, net.layers);
    net.new_gradients(random);
    double c = 1e-3, sum = 0;
    for (int k = 0; k < 60; ++k) {
      const double far = distance(net, start);
      c = std::min(most, std::max(c, far));
      const auto before = net.weights;
      const StepReport& report = optimizer.step(net.parameters());
      sum += c * c * report.pairing * report.pairing;
      EXPECT_NEAR(report.distance, far, 1e-12 * (1 + far));
      const double expected = c * c * report.pairing / std::sqrt(sum);
      EXPECT_NEAR(report.eta, expected, 1e-12 * expected) << k;
      EXPECT_NEAR(distance(net, before), expected, 1e-12 * (1 + expected));
    }
    EXPECT_GT(c, 0.049);  // it has left its first steps behind
  }
}

// f̂ from its definition, with everything that the past had; layers have lr factors of their own.
TEST(Momo, AveragesTheLinearModels) {
  for (const double alpha : {1.0, 0.3}) {
    for (const bool factors : {false, true}) {
      Net net(every_norm(), 5);
      Random random(3);
      const double f_star = 0.4, lr = 0.02;
      Method method = with(Momo{f_star}, false, alpha);
      method.lr = lr;
      Optimizer<double> optimizer(method, net.layers);
      std::vector<std::vector<Matrix<double>>> points, gradients;
      int cut = 0;
      for (int k = 0; k < 12; ++k) {
        net.new_gradients(random, 0.2);
        points.push_back(net.weights);
        gradients.push_back(net.gradients);
        double model = 0, weight = 0;
        for (int i = 0; i <= k; ++i) {
          const auto at = static_cast<size_t>(i);
          const double own = alpha * std::pow(1 - alpha, k - i);
          model += own * (loss_at(i) + dot(gradients[at], net.weights, points[at]));
          weight += own;
        }
        auto parameters = net.parameters();
        if (factors) parameters[1].lr_factor = 0.25, parameters[4].lr_factor = 0.5;
        const StepReport& report = optimizer.step(parameters, loss_at(k));
        double slope = 0;
        for (size_t l = 0; l < parameters.size(); ++l) {
          slope += parameters[l].lr_factor * report.layers[l].pairing;
        }
        EXPECT_NEAR(report.slope, slope, 1e-12 * slope);
        const double length = std::max(0.0, model - weight * f_star) / slope;
        EXPECT_NEAR(lr * report.eta, std::min(lr, length), 1e-13) << k << ", alpha " << alpha;
        cut += length > lr;
      }
      EXPECT_GT(cut, 0) << alpha;
      EXPECT_LT(cut, 12) << alpha;
    }
  }
}

// Where f − f* = s²/(2L), as of quadratics along one direction, Momo is clipping with ρ = 2L lr.
TEST(Momo, IsClippingOnAQuadraticOfOneDirection) {
  for (const double scale : {0.3, 20.0}) {
    const double l = 2, lr = 0.5;
    const auto layers = one_layer(3, 4, Euclidean{});
    Net a(layers, 5);
    for (double& w : a.weights[0].data) w *= scale;
    Net b = a;
    Method clipped = ggnc(lr, 2 * l * lr);
    Method momo = make_method("ucg", {.lr = lr, .stepsize = Momo{}});
    Optimizer<double> first(clipped, layers), second(momo, layers);
    for (int k = 0; k < 30; ++k) {
      for (Net* net : {&a, &b}) {
        net->gradients = net->weights;
        for (double& g : net->gradients[0].data) g *= l;
      }
      double f = 0;
      for (const double w : b.weights[0].data) f += l * w * w / 2;
      first.step(a.parameters());
      second.step(b.parameters(), f);
      EXPECT_LT(max_difference(a.weights[0], b.weights[0]), 1e-12 * scale) << k;
    }
  }
}

// The threshold against a sorted copy, over several windows.
TEST(AutoClipped, ClipsAtTheQuantileOfTheLastSteps) {
  for (const double quantile : {0.5, 0.9, 1.0, 0.01}) {
    const AutoClipped rule{quantile};
    std::vector<double> memory(AutoClipped::memory_size), past;
    Random random(3);
    for (int k = 0; k < 350; ++k) {
      const double s = std::exp(random.normal() - 0.01 * k);
      double expected = 1;
      if (!past.empty()) {
        std::vector<double> last(past.end() - std::min<std::ptrdiff_t>(100, std::ssize(past)),
                                 past.end());
        std::ranges::sort(last);
        const auto rank = std::ceil(quantile * static_cast<double>(last.size()) - 1e-9);
        expected = std::min(1.0, s / last[static_cast<size_t>(rank) - 1]);
      }
      const StepInput input{.pairing = s, .memory = memory};
      const double found = eta(rule, input);
      EXPECT_EQ(found, expected) << k << ", quantile " << quantile;
      EXPECT_EQ(is_clipped(rule, found), expected == 1);
      remember(rule, input, found, memory);
      past.push_back(s);
    }
  }
}

TEST(AutoClipped, ReportsTheThresholdThatItUsed) {
  Net net(every_norm(), 5);
  Optimizer<double> optimizer(with(AutoClipped{}), net.layers);
  Random random(1);
  std::vector<double> seen;
  for (int k = 0; k < 6; ++k) {
    net.new_gradients(random, k + 1);
    const StepReport& report = optimizer.step(net.parameters());
    std::ranges::sort(seen);
    EXPECT_EQ(report.threshold, seen.empty() ? 0 : seen[(seen.size() - 1) / 2]) << k;
    seen.push_back(report.pairing);
  }
  EXPECT_EQ(threshold(Clipped{3}, {}), 3);
  EXPECT_EQ(threshold(ShortStep{.rho = 2}, {}), 2);
  EXPECT_EQ(threshold(Normalized{}, {}), 0);
  EXPECT_EQ(threshold(AdaGrad{}, std::vector<double>{5}), 0);
}

TEST(RulesWithMemory, ResumedRunsAreBitIdentical) {
  for (const StepRule& rule : rules()) {
    for (const bool constrained : {false, true}) {
      const auto* aware = std::get_if<DistanceAware>(&rule);
      if (constrained && aware != nullptr && aware->most > 1) continue;  // refused
      const Method method = with(rule, constrained);
      Net a(every_norm(), 5);
      Random random(1), again(1);
      if (constrained) a.move_into_ball(random), a.move_into_ball(again);
      if (constrained) again = random;
      Net b = a;
      const auto run = [](Optimizer<double>& optimizer, Net& net, Random& r, int from, int to) {
        for (int k = from; k < to; ++k) {
          net.new_gradients(r);
          optimizer.step(net.parameters(), loss_at(k));
        }
      };
      Optimizer<double> whole(method, b.layers), first(method, a.layers), resumed(method, a.layers);
      run(whole, b, again, 0, 20);
      run(first, a, random, 0, 10);
      EXPECT_EQ(first.rule_memory().size(), memory_size(rule));
      resumed.load_state(saved(first), first.steps_taken(), first.rule_memory());
      run(resumed, a, random, 10, 20);
      EXPECT_EQ(a.weights, b.weights) << rule;
      EXPECT_TRUE(std::ranges::equal(resumed.rule_memory(), whole.rule_memory())) << rule;
    }
  }
}

// Also one that was written into a file, or a group of parameters, by hand.
TEST(RulesWithMemory, RefuseNumbersThatTheyCannotHaveLeft) {
  struct Case {
    const char* rule;
    size_t entry;
    double value;
  };
  for (const Case& c :
       {Case{"adagrad", 0, -5}, Case{"distance_aware", 0, -1}, Case{"distance_aware", 1, -1},
        Case{"momo", 1, -0.1}, Case{"momo", 1, 1.1}, Case{"auto_clipped", 0, -5},
        Case{"auto_clipped", 0, -1e18}, Case{"auto_clipped", 0, 0.5},
        Case{"auto_clipped", 0, 1e300}, Case{"auto_clipped", 0, 3}, Case{"auto_clipped", 1, -2}}) {
    const StepRule rule = parse_step_rule(c.rule);
    Net net(every_norm(), 5);
    Optimizer<double> optimizer(with(rule), net.layers);
    optimizer.step(net.parameters(), 1);
    std::vector<double> memory(optimizer.rule_memory().begin(), optimizer.rule_memory().end());
    const auto before = memory;
    memory[c.entry] = c.value;
    SCOPED_TRACE(::testing::Message() << c.rule << ": " << c.entry << " is " << c.value);
    testing::expect_invalid([&] { optimizer.load_state(saved(optimizer), 1, memory); },
                            {"cannot have left these numbers", c.rule});
    testing::expect_invalid([&] { eta(rule, {.pairing = 1, .loss = 1, .memory = memory}); },
                            {"cannot have left these numbers"});
    EXPECT_TRUE(std::ranges::equal(before, optimizer.rule_memory())) << rule;
  }
}

TEST(RulesWithMemory, ChangeNothingWhereAStepIsRefused) {
  for (const StepRule& rule : rules()) {
    for (const auto policy : {NonFinite::Throw, NonFinite::Skip}) {
      Net net(every_norm(), 5);
      Optimizer<double> optimizer(with(rule), net.layers, {.nonfinite = policy});
      optimizer.step(net.parameters(), 1);
      const auto before = net.weights;
      const std::vector<double> memory(optimizer.rule_memory().begin(),
                                       optimizer.rule_memory().end());
      const auto refused = [&](double loss) {
        try {
          EXPECT_TRUE(optimizer.step(net.parameters(), loss).skipped);
        } catch (const NonFiniteError&) {
          EXPECT_EQ(policy, NonFinite::Throw);
        }
        EXPECT_EQ(net.weights, before) << rule;
        EXPECT_TRUE(std::ranges::equal(memory, optimizer.rule_memory())) << rule;
        EXPECT_EQ(optimizer.steps_taken(), 1);
      };
      if (needs_loss(rule)) {
        refused(std::nan(""));
        refused(HUGE_VAL);
      }
      net.gradients[2].data[3] = std::nan("");
      refused(1);
    }
  }
}

TEST(RulesWithMemory, JoinedPartsStepAsTheWhole) {
  for (const StepRule& rule : rules()) {
    const Method method = with(rule);
    Net whole(every_norm(), 5), parts = whole;
    const auto start = whole.weights;
    const std::vector<Layer> first(whole.layers.begin(), whole.layers.begin() + 3);
    const std::vector<Layer> second(whole.layers.begin() + 3, whole.layers.end());
    const Execution driven{.external_momentum = true};
    Optimizer<double> all(method, whole.layers), one(method, first, driven),
        two(method, second, driven);
    auto momenta = whole.weights;
    for (auto& momentum : momenta) std::ranges::fill(momentum.data, 0);
    std::vector<double> memory(memory_size(rule));
    Random random(3);
    for (int k = 0; k < 6; ++k) {
      whole.new_gradients(random, 0.1);
      parts.gradients = whole.gradients;
      const StepReport& expected = all.step(whole.parameters(), loss_at(k));
      auto parameters = parts.parameters();
      for (size_t l = 0; l < parameters.size(); ++l) {
        parameters[l].momentum = momenta[l].view();
        parameters[l].start = start[l].view();
      }
      const std::span list(parameters);
      const StepReport& a = one.prepare(list.first(3));
      const StepReport& b = two.prepare(list.subspan(3));
      std::array<double, 2> shares{};
      const JointStep joint = join_parts(
          method,
          {std::array{a.pairing, b.pairing}, std::array{a.direction_norm, b.direction_norm},
           std::array{a.slope, b.slope}, std::array{a.distance, b.distance}},
          {.step = k, .gamma = a.gamma, .alpha = 0.3, .loss = loss_at(k), .memory = memory},
          shares);
      EXPECT_NEAR(joint.eta, expected.eta, 1e-12 * expected.eta) << rule;
      one.apply(joint.eta * shares[0]);
      two.apply(joint.eta * shares[1]);
      remember(method.rule, joint.input, joint.eta, memory);
      for (size_t i = 0; i < memory.size(); ++i) {
        EXPECT_NEAR(memory[i], all.rule_memory()[i], 1e-12 * (1 + std::abs(memory[i]))) << rule;
      }
      for (size_t l = 0; l < start.size(); ++l) {
        EXPECT_LT(max_difference(whole.weights[l], parts.weights[l]), 1e-12) << rule;
      }
    }
  }
}

TEST(RulesWithMemory, AnotherKindOfRuleStartsAfresh) {
  Net net(every_norm(), 5);
  Optimizer<double> optimizer(unconstrained_scion(0.1, 0.5), net.layers);
  EXPECT_TRUE(optimizer.rule_memory().empty());
  optimizer.step(net.parameters());
  optimizer.set_rule(DistanceAware{});
  const auto start = net.weights;
  for (int k = 0; k < 3; ++k) {
    const double far = distance(net, start);
    EXPECT_NEAR(optimizer.step(net.parameters()).distance, far, 1e-12);
  }
  EXPECT_GT(optimizer.rule_memory()[0], 0);
  optimizer.set_rule(DistanceAware{.first = 1e-3});
  EXPECT_GT(optimizer.rule_memory()[0], 0);  // of the same kind
  optimizer.set_rule(AdaGrad{});
  EXPECT_EQ(optimizer.rule_memory()[0], 0);
}

TEST(RulesWithMemory, NoStepWhereThePairingIsNotPositive) {
  const std::vector<double> memory(200, 1);
  for (const StepRule& rule : rules()) {
    for (const double s : {0.0, -3.0}) {
      const std::span own = std::span(memory).first(memory_size(rule));
      EXPECT_EQ(eta(rule, {.pairing = s, .slope = s, .loss = 1, .memory = own}), 0) << rule;
    }
    EXPECT_TRUE(std::isnan(eta(rule, {.pairing = std::nan("")}))) << rule;
  }
  const std::array<double, 1> empty{};
  EXPECT_EQ(eta(AdaGrad{}, {.pairing = 1e-320, .memory = empty}), 1);
  EXPECT_EQ(eta(AdaGrad{}, {.pairing = 1e300, .memory = empty}), 1);
}

TEST(RulesWithMemory, PrintAndParse) {
  for (const auto* text :
       {"adagrad", "adagrad(b0=2)", "distance_aware", "distance_aware(first=0.001)",
        "distance_aware(first=0.01, most=1)", "momo", "momo(f_star=-1.5)", "auto_clipped",
        "auto_clipped(quantile=0.9)"}) {
    EXPECT_EQ(to_string(parse_step_rule(text)), text);
    EXPECT_EQ(parse_step_rule(to_string(parse_step_rule(text))), parse_step_rule(text));
  }
}

TEST(RulesWithMemoryErrors, SayWhatIsMissing) {
  Net net(every_norm(), 5);
  Optimizer<double> momo(with(Momo{.f_star = 2}), net.layers);
  const auto before = net.weights;
  expect_invalid([&] { momo.step(net.parameters()); },
                 {"[Optimizer::step]", "momo(f_star=2)", "needs the loss"});
  expect_invalid([&] { momo.step(net.parameters(), 1.5); }, {"1.5", "below f_star = 2", "lower"});
  EXPECT_EQ(net.weights, before);
  for (const auto& [name, view] : momo.state()) {
    for (Index i = 0; i < view.size(); ++i) EXPECT_EQ(view.data[i], 0);
  }
  momo.step(net.parameters(), 2.5);

  Optimizer<double> adagrad(with(AdaGrad{}), net.layers);
  adagrad.prepare(net.parameters());
  expect_invalid([&] { adagrad.eta(1); }, {"[Optimizer::eta]", "adagrad", "decide_step"});
  adagrad.abandon();
  expect_invalid([] { eta(AdaGrad{}, {.pairing = 1}); }, {"adagrad", "1 numbers", "got 0"});
  adagrad.step(net.parameters());
  expect_invalid([&] { adagrad.load_state(saved(adagrad), 3); },
                 {"[Optimizer::load_state]", "adagrad", "1 numbers", "got 0", "rule_memory"});
  expect_invalid(
      [&] {
        adagrad.load_state(saved(adagrad), 3, std::array{1.0, 2.0});
      },
      {"1 numbers", "got 2"});
  expect_invalid([&] { adagrad.load_state(saved(adagrad), 3, std::array{std::nan("")}); },
                 {"memory", "nan"});
  EXPECT_EQ(adagrad.steps_taken(), 1);

  Optimizer<double> driven(with(DistanceAware{}), net.layers, {.external_momentum = true});
  auto parameters = net.parameters();
  for (size_t l = 0; l < parameters.size(); ++l) parameters[l].momentum = net.gradients[l].view();
  Net momenta = net;
  for (size_t l = 0; l < parameters.size(); ++l) {
    parameters[l].momentum = momenta.gradients[l].view();
  }
  expect_invalid([&] { driven.step(parameters); }, {"start", "'spectral'", "copy"});

  expect_invalid([] { validate(StepRule(AdaGrad{-1})); }, {"[AdaGrad]", "b0", "-1"});
  expect_invalid([] { validate(StepRule(DistanceAware{.first = 0})); },
                 {"[DistanceAware]", "first", "positive"});
  expect_invalid([] { validate(StepRule(DistanceAware{.first = 1, .most = 0.5})); },
                 {"[DistanceAware]", "most", "0.5"});
  for (const double bad : {0.0, 1.5, std::nan("")}) {
    expect_invalid([&] { validate(StepRule(AutoClipped{bad})); }, {"[AutoClipped]", "quantile"});
  }
  StepRule automatic = AutoClipped{};
  expect_invalid([&] { set_rho(automatic, 3); }, {"[set_rho]", "auto_clipped", "'clipped'"});
  expect_invalid([] { validate(StepRule(Momo{HUGE_VAL})); }, {"[Momo]", "f_star", "inf"});
}

TEST(Stepsize, ReplacesTheRuleOfMethodsWithoutOne) {
  const Method method = make_method("scion", {.lr = 0.1, .alpha = 0.2, .stepsize = AdaGrad{}});
  EXPECT_TRUE(method.constrained);
  EXPECT_EQ(method.rule, StepRule(AdaGrad{}));
  EXPECT_EQ(make_method("ucg", {.stepsize = DistanceAware{}}).lr, Schedule(1));
  EXPECT_FALSE(needs_lr("ucg", {.stepsize = DistanceAware{}}));
  EXPECT_TRUE(needs_lr("ucg", {.stepsize = Momo{}}));
  EXPECT_FALSE(needs_lr("cg", {}));
  for (const auto name : {"normalized_gd", "ucg", "lars", "scion", "unconstrained_scion"}) {
    EXPECT_TRUE(takes_stepsize(name)) << name;
  }
  expect_invalid([] { make_method("ggnc", {.lr = 1, .rho = 1, .stepsize = Momo{}}); },
                 {"'ggnc'", "clipped(rho=1)", "'momo'", "'ucg'"});
  expect_invalid([] { make_method("ucg", {.stepsize = AdaGrad{}}); }, {"'ucg' needs lr"});
  for (const auto text : {"adagrad(b0=2)", "distance_aware", "momo", "auto_clipped"}) {
    EXPECT_EQ(parse_stepsize(text), parse_step_rule(text));
  }
  // The rules of methods come with these.
  for (const auto text : {"normalized(rho=2)", "steepest", "clipped(rho=1)", "clipped",
                          "short_step(rho=1, norm)", "open_loop", "adaptive(l0=1, l1=2)"}) {
    expect_invalid([&] { parse_stepsize(text); },
                   {text, "leave stepsize out", "adagrad, distance_aware, momo or auto_clipped"});
  }
  expect_invalid([] { make_method("ucg", {.lr = 1, .stepsize = Clipped{3}}); },
                 {"[make_method]", "'clipped(rho=3)'", "auto_clipped"});
  expect_invalid([] { parse_stepsize("adagard"); }, {"stepsize 'adagard'", "'adagrad'", "momo"});
  // In the ball no step may be longer than 1.
  expect_invalid([] { make_method("scion", {.stepsize = DistanceAware{}}); }, {"gamma eta <= 1"});
  make_method("scion", {.stepsize = DistanceAware{.most = 1}});
  expect_invalid([] { make_method("scion", {.lr = 2, .stepsize = AdaGrad{}}); },
                 {"gamma eta <= 1"});
}

}  // namespace
}  // namespace normball::testing
