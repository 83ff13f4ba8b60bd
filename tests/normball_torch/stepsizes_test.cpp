// Stepsizes that find themselves, in the adapter: against their formulas, in one part and in
// several, resumed, refused and misused.
#include <cmath>
#include <sstream>

#include "normball/base/error.h"
#include "normball_torch/clipped_scion.h"
#include "ways.h"

namespace {

using normball::NonFiniteError;
using normball::optim::ClippedScion;
using normball::optim::NormBall;
using normball::optim::NormBallOptions;
using normball::optim::Scion;
using support::equal;
using support::expect_error;
using support::Way;
using support::ways;
using support::weights;
using torch::Tensor;

const std::vector<std::string> stepsizes = {"adagrad", "adagrad(b0=2)",
                                            "distance_aware(first=0.001)", "momo(f_star=0.5)",
                                            "auto_clipped(quantile=0.8)"};
constexpr double lr = 0.05;

// A smooth loss of all weights together, above 1, and its gradients.
double evaluate(std::vector<Tensor>& parameters, int step) {
  torch::manual_seed(static_cast<uint64_t>(100 + step));
  Tensor loss = torch::ones({}, torch::kFloat64);
  for (auto& parameter : parameters) {
    parameter.mutable_grad() = Tensor();
    const Tensor noise = 0.1 * torch::randn(parameter.sizes(), torch::kFloat64);
    loss = loss + (parameter.to(torch::kFloat64) - 1 + noise).pow(2).sum();
  }
  loss.backward();
  return loss.item<double>();
}

NormBallOptions options_for(const std::string& stepsize, Way way) {
  NormBallOptions options;
  options.stepsize(stepsize).force_aten(way == Way::Aten);
  if (!stepsize.starts_with("distance_aware")) options.lr(lr);
  return options;
}

// The rules' formulas in the Euclidean norm of the whole model, where v = g / ‖g‖ and s = ‖g‖:
// everything that was seen is kept, and summed up as it stands in them.
class Formula {
 public:
  Formula(std::string name, const std::vector<Tensor>& start) : name_(std::move(name)) {
    x_ = flat(start);
    x0_ = x_.clone();
  }

  void step(const std::vector<Tensor>& gradients, double loss) {
    const Tensor g = flat(gradients);
    const double s = g.norm().item<double>();
    x_ = x_ - length(s, loss) * g / s;
    seen_.push_back(s);
  }
  const Tensor& x() const { return x_; }
  double last() const { return last_; }

  static Tensor flat(const std::vector<Tensor>& tensors) {
    std::vector<Tensor> parts;
    for (const auto& tensor : tensors)
      parts.push_back(tensor.detach().to(torch::kFloat64).flatten());
    return torch::cat(parts);
  }

 private:
  double length(double s, double loss) {
    if (name_.starts_with("adagrad")) {
      double sum = s * s + (name_ == "adagrad" ? 0 : 4);
      for (const double before : seen_) sum += before * before;
      return last_ = lr * s / std::sqrt(sum);
    }
    if (name_.starts_with("distance_aware")) {
      lengths_.push_back(
          std::max(lengths_.empty() ? 0.001 : lengths_.back(), (x_ - x0_).norm().item<double>()));
      const double c = lengths_.back();
      double sum = c * c * s * s;
      for (size_t i = 0; i < seen_.size(); ++i) sum += std::pow(lengths_[i] * seen_[i], 2);
      return last_ = c * c * s / std::sqrt(sum);
    }
    if (name_.starts_with("momo")) return last_ = std::min(lr, (loss - 0.5) / s);
    std::vector<double> sorted = seen_;
    std::sort(sorted.begin(), sorted.end());
    if (sorted.empty()) return last_ = lr;
    const auto rank =
        static_cast<size_t>(std::ceil(0.8 * static_cast<double>(sorted.size()) - 1e-9));
    return last_ = lr * std::min(1.0, s / sorted[rank - 1]);
  }

  std::string name_;
  Tensor x_, x0_;
  std::vector<double> seen_, lengths_;
  double last_ = 0;
};

TEST(Stepsizes, FollowTheirFormulasInEveryPart) {
  for (const Way way : ways) {
    for (const auto& stepsize : stepsizes) {
      auto parameters = weights(way);
      NormBall optimizer(parameters, "normalized_gd", options_for(stepsize, way));
      Formula formula(stepsize, parameters);
      const double close = way == Way::Parts ? 1e-5 : 1e-11;
      for (int step = 0; step < 20; ++step) {
        const double loss = evaluate(parameters, step);
        std::vector<Tensor> gradients;
        for (const auto& parameter : parameters) gradients.push_back(parameter.grad());
        formula.step(gradients, loss);
        optimizer.step(loss);
        const auto& report = optimizer.report();
        EXPECT_NEAR(report.gamma * report.eta, formula.last(), close * formula.last())
            << stepsize << " step " << step;
        const double distance = (Formula::flat(parameters) - formula.x()).norm().item<double>();
        EXPECT_LE(distance, close * formula.x().norm().item<double>()) << stepsize << " " << step;
      }
    }
  }
}

std::string saved(const NormBall& optimizer) {
  std::ostringstream out;
  torch::save(optimizer, out);
  return out.str();
}

void load(NormBall& optimizer, const std::string& text) {
  std::istringstream in(text);
  torch::load(optimizer, in);
}

void train(NormBall& optimizer, std::vector<Tensor>& parameters, int from, int to) {
  for (int step = from; step < to; ++step) optimizer.step(evaluate(parameters, step));
}

void copy(const std::vector<Tensor>& from, std::vector<Tensor>& to) {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
}

TEST(Stepsizes, ResumedRunsHaveTheSameBits) {
  for (const Way way : ways) {
    for (const bool constrained : {false, true}) {
      for (const auto& each : stepsizes) {
        const bool distance = each.starts_with("distance_aware");
        const std::string stepsize =
            constrained && distance ? "distance_aware(first=0.001, most=0.5)" : each;
        const auto options = options_for(stepsize, way).alpha(0.3).constrained(constrained);
        auto parameters = weights(way, torch::kFloat32), again = weights(way, torch::kFloat32);
        Scion optimizer(parameters, options), resumed(again, options);
        train(optimizer, parameters, 0, 6);
        load(resumed, saved(optimizer));
        copy(parameters, again);
        EXPECT_EQ(resumed.rule_memory(), optimizer.rule_memory()) << stepsize;
        train(optimizer, parameters, 6, 12);
        train(resumed, again, 6, 12);
        EXPECT_TRUE(equal(parameters, again)) << stepsize;
        EXPECT_EQ(resumed.rule_memory(), optimizer.rule_memory()) << stepsize;
        // The same by layers.
        auto third = weights(way, torch::kFloat32);
        Scion by_layers(third, options);
        copy(parameters, third);
        const auto state = optimizer.layer_state();
        auto into = by_layers.layer_state();
        ASSERT_EQ(into.size(), state.size());
        for (size_t i = 0; i < state.size(); ++i) {
          EXPECT_EQ(into[i].first, state[i].first);
          into[i].second.copy_(state[i].second);
        }
        by_layers.set_steps_taken(12, optimizer.rule_memory());
        train(optimizer, parameters, 12, 15);
        train(by_layers, third, 12, 15);
        EXPECT_TRUE(equal(parameters, third)) << stepsize;
      }
    }
  }
}

// What a refused step may not touch.
struct Everything {
  std::vector<Tensor> tensors;
  std::vector<double> memory;
  int64_t steps;

  Everything(NormBall& optimizer, const std::vector<Tensor>& parameters)
      : memory(optimizer.rule_memory()), steps(optimizer.steps_taken()) {
    for (const auto& parameter : parameters) tensors.push_back(parameter.detach().clone());
    for (const auto& [name, tensor] : optimizer.layer_state()) tensors.push_back(tensor.clone());
  }
  friend bool operator==(const Everything& a, const Everything& b) {
    return equal(a.tensors, b.tensors) && a.memory == b.memory && a.steps == b.steps;
  }
};

TEST(Stepsizes, ARefusedStepChangesNothing) {
  for (const Way way : ways) {
    auto parameters = weights(way);
    Scion optimizer(parameters, options_for("momo(f_star=0.5)", way).alpha(0.3));
    train(optimizer, parameters, 0, 3);
    const double loss = evaluate(parameters, 3);
    const Everything before(optimizer, parameters);
    expect_error([&] { optimizer.step(); }, {"momo", "needs the loss"});
    expect_error([&] { optimizer.step(0.4); }, {"0.4", "f_star = 0.5"});
    expect_error([&] { optimizer.step([] { return torch::ones({2}); }); }, {"one number", "[2]"});
    EXPECT_THROW(optimizer.step(std::nan("")), NonFiniteError);
    EXPECT_THROW(optimizer.step(INFINITY), NonFiniteError);
    parameters[2].mutable_grad()[0] = std::nan("");
    EXPECT_THROW(optimizer.step(loss), NonFiniteError);
    EXPECT_EQ(before, Everything(optimizer, parameters));
    train(optimizer, parameters, 3, 5);
    EXPECT_EQ(optimizer.steps_taken(), 5);
  }
}

TEST(Stepsizes, ALossThatIsNotFiniteIsSkippedWhereGradientsAre) {
  auto parameters = weights(Way::Core);
  Scion optimizer(parameters, options_for("momo", Way::Core).skip_nonfinite(true));
  train(optimizer, parameters, 0, 2);
  evaluate(parameters, 2);
  const Everything before(optimizer, parameters);
  optimizer.step(std::nan(""));
  EXPECT_TRUE(optimizer.report().skipped);
  EXPECT_EQ(optimizer.report().lr, lr);
  EXPECT_EQ(before, Everything(optimizer, parameters));
}

TEST(Stepsizes, AClosureGivesTheLoss) {
  auto parameters = weights(Way::Core), others = weights(Way::Core);
  const auto options = options_for("momo", Way::Core);
  Scion one(parameters, options), other(others, options);
  for (int step = 0; step < 5; ++step) {
    train(one, parameters, step, step + 1);
    const Tensor loss =
        other.step([&] { return torch::tensor(evaluate(others, step), torch::kFloat64); });
    EXPECT_GT(loss.item<double>(), 1);
  }
  EXPECT_TRUE(equal(parameters, others));
}

TEST(Stepsizes, OnesThatDoNotNeedALossDoNotLookAtIt) {
  auto parameters = weights(Way::Core);
  Scion optimizer(parameters, options_for("adagrad", Way::Core));
  evaluate(parameters, 0);
  optimizer.step(std::nan(""));
  optimizer.step([] { return Tensor(); });
  EXPECT_EQ(optimizer.steps_taken(), 2);
}

TEST(Stepsizes, ClippedScionWithAThresholdThatFindsItself) {
  auto parameters = weights(Way::Core), others = weights(Way::Core);
  const auto options = NormBallOptions(lr).alpha(0.3).stepsize("auto_clipped");
  ClippedScion one(parameters, options);
  Scion other(others, options);
  train(one, parameters, 0, 4);
  train(other, others, 0, 4);
  EXPECT_TRUE(equal(parameters, others));
  std::vector<double> seen(one.rule_memory().begin() + 1, one.rule_memory().begin() + 4);
  std::sort(seen.begin(), seen.end());  // of the three steps before the last
  EXPECT_EQ(one.report().threshold, seen[1]);
  expect_error([&] { ClippedScion(parameters, NormBallOptions(lr).stepsize("adagrad")); },
               {"adagrad", "does not clip", "Scion"});
  expect_error([&] { ClippedScion(parameters, NormBallOptions(options).rho(3)); },
               {"auto_clipped", "leave rho out"});
}

TEST(Stepsizes, MistakesInOptionsAreNamed) {
  const auto parameters = weights(Way::Core);
  expect_error([&] { NormBall(parameters, "ggnc", NormBallOptions(lr).rho(1).stepsize("momo")); },
               {"ggnc", "rule of its own", "momo"});
  expect_error([&] { Scion(parameters, NormBallOptions(lr).stepsize("adagard")); },
               {"adagard", "adagrad"});
  expect_error([&] { Scion(parameters, NormBallOptions().stepsize("momo")); }, {"lr"});
  for (const std::string rule : {"clipped(rho=1)", "steepest", "normalized", "open_loop"}) {
    const auto options = NormBallOptions(lr).stepsize(rule);
    const std::vector<std::string> parts = {"'" + rule + "'", "leave stepsize out",
                                            "adagrad, distance_aware, momo or auto_clipped"};
    expect_error([&] { Scion(parameters, options); }, parts);
    expect_error([&] { ClippedScion(parameters, options); }, parts);
  }
  expect_error(
      [&] { Scion(parameters, NormBallOptions().constrained(true).stepsize("distance_aware")); },
      {"distance_aware can reach inf", "ball"});
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(parameters,
                      std::make_unique<NormBallOptions>(NormBallOptions().stepsize("momo")));
  expect_error([&] { Scion(groups, NormBallOptions(lr).stepsize("adagrad")); },
               {"group 0", "stepsize", "'momo'"});
}

// The longest step counts, in every group: lr times the most that the rule gives.
TEST(Stepsizes, InTheBallTheLongestStepCountsNotTheLr) {
  const auto options = [](double own_lr, double most) {
    return NormBallOptions(own_lr).constrained(true).stepsize(
        "distance_aware(first=0.4, most=" + std::to_string(most) + ")");
  };
  for (const Way way : ways) {
    for (const auto& [own_lr, most] : {std::pair(0.5, 2.0), std::pair(1.25, 0.8)}) {
      auto parameters = weights(way);
      Scion optimizer(parameters, options(own_lr, most).force_aten(way == Way::Aten));
      train(optimizer, parameters, 0, 5);
      EXPECT_GT(optimizer.report().gamma * optimizer.report().eta, 0);
      optimizer.param_groups()[0].options().set_lr(2 * own_lr);
      evaluate(parameters, 5);
      expect_error([&] { optimizer.step(); },
                   {"lr of 'param", "gamma eta <= 1", "distance_aware", "can reach 2"});
    }
  }
  const auto parameters = weights(Way::Core);
  for (const auto& [own_lr, most] : {std::pair(0.5, 2.5), std::pair(1.25, 1.0)}) {
    expect_error([&, own_lr = own_lr, most = most] { Scion(parameters, options(own_lr, most)); },
                 {"gamma eta <= 1", "can reach 1.25"});
  }
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(parameters, std::make_unique<NormBallOptions>(0.625));
  expect_error([&] { Scion(groups, options(0.5, 2)); }, {"'param0'", "can reach 1.25"});
}

// At once, and alike in the core and in tensor operations.
TEST(Stepsizes, ClippedSingularValuesDoNotSuitABall) {
  for (const bool aten : {false, true}) {
    const auto options = NormBallOptions(0.1).force_aten(aten).norm("spectral(solver=clip)");
    const auto parameters = weights(Way::Core);
    expect_error([&] { Scion(parameters, NormBallOptions(options).constrained(true)); },
                 {"[NormBall]", "'param0' clips singular values", "solver=exact"});
    expect_error([&] { Scion(parameters, NormBallOptions(0.1).constrained(true).solver("clip")); },
                 {"'param0' clips singular values"});
    Scion(parameters, NormBallOptions(options));
  }
}

// How many lines of stderr, where LibTorch's warnings go, have this part.
int warnings_of(const std::function<void()>& body, const std::string& part) {
  testing::internal::CaptureStderr();
  body();
  std::istringstream lines(testing::internal::GetCapturedStderr());
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    count += static_cast<int>(line.find(part) != std::string::npos);
  }
  return count;
}

TEST(Stepsizes, StepsBelowTheSpacingOfTheTypeArePointedOut) {
  const auto run = [](torch::ScalarType type, double first, std::vector<double> lrs) {
    Tensor w = torch::ones({4, 3}, type).set_requires_grad(true);
    Scion optimizer(
        {w}, NormBallOptions().stepsize("distance_aware(first=" + std::to_string(first) + ")"));
    const int count = warnings_of(
        [&] {
          for (const double each : lrs) {
            optimizer.param_groups()[0].options().set_lr(each);
            w.mutable_grad() = torch::ones_like(w.detach());
            optimizer.step();
          }
        },
        "changed no weight");
    return std::pair(count, (w.detach() != 1).any().item<bool>());
  };
  const std::pair stands(1, false), moves(0, true);
  EXPECT_EQ(run(torch::kBFloat16, 1e-4, {1, 1, 1}), stands);
  EXPECT_EQ(run(torch::kHalf, 1e-5, {1, 1, 1}), stands);
  EXPECT_EQ(run(torch::kBFloat16, 0.1, {1, 1, 1}), moves);
  EXPECT_EQ(run(torch::kFloat32, 1e-4, {1, 1, 1}), moves);
  EXPECT_EQ(run(torch::kFloat32, 1e-4, {0, 1}), moves);  // a warm-up from 0
}

NormBallOptions& defaults_of(NormBall& optimizer) {
  return static_cast<NormBallOptions&>(optimizer.defaults());
}

TEST(Stepsizes, AnotherRuleStartsWithAnEmptyMemoryOtherNumbersKeepIt) {
  auto parameters = weights(Way::Core);
  Scion optimizer(parameters, options_for("adagrad", Way::Core));
  train(optimizer, parameters, 0, 3);
  const auto memory = optimizer.rule_memory();
  EXPECT_GT(memory[0], 0);
  defaults_of(optimizer).stepsize("adagrad(b0=1)");
  EXPECT_EQ(optimizer.rule_memory(), memory);
  defaults_of(optimizer).stepsize("momo");
  EXPECT_EQ(optimizer.rule_memory(), (std::vector<double>{0, 0}));
  train(optimizer, parameters, 3, 4);
  defaults_of(optimizer).stepsize("distance_aware");  // as many numbers
  EXPECT_EQ(optimizer.rule_memory(), (std::vector<double>{0, 0}));
  optimizer.state().clear();
  train(optimizer, parameters, 4, 6);
  EXPECT_EQ(optimizer.steps_taken(), 2);
}

TEST(Stepsizes, FilesOfOtherStepsizesAreRefusedThoseWithoutOneOpen) {
  auto parameters = weights(Way::Core), others = weights(Way::Core);
  Scion optimizer(parameters, options_for("momo", Way::Core));
  train(optimizer, parameters, 0, 3);
  const std::string file = saved(optimizer);
  Scion other(others, options_for("adagrad", Way::Core));
  train(other, others, 0, 1);
  const Everything before(other, others);
  expect_error([&] { load(other, file); }, {"momo", "adagrad", "file's stepsize"});
  EXPECT_EQ(before, Everything(other, others));
  Scion plain(others, NormBallOptions(lr));
  expect_error([&] { load(plain, file); }, {"momo"});
  train(plain, others, 0, 2);
  load(other, saved(plain));
  EXPECT_EQ(other.rule_memory(), std::vector<double>{0});
  EXPECT_EQ(other.steps_taken(), 2);
  expect_error([&] { other.set_steps_taken(3); }, {"remembers 1 numbers", "got 0"});
  const double bad[] = {INFINITY};
  expect_error([&] { other.set_steps_taken(3, bad); }, {"inf"});
  EXPECT_EQ(other.steps_taken(), 2);
}

TEST(Stepsizes, FilesThatNoStepCanGoOnWithAreRefused) {
  auto parameters = weights(Way::Core), others = weights(Way::Core);
  Scion optimizer(parameters, options_for("distance_aware", Way::Core).alpha(0.3));
  train(optimizer, parameters, 0, 2);
  Scion other(others, options_for("distance_aware", Way::Core).alpha(0.3));
  train(other, others, 0, 1);
  const Everything before(other, others);
  using State = normball::optim::NormBallParamState;
  const auto refused = [&](const std::function<void(State&)>& spoil,
                           const std::vector<std::string>& parts) {
    auto& state = static_cast<State&>(*optimizer.state().begin()->second);
    const State good = state;
    spoil(state);
    const std::string file = saved(optimizer);
    state = good;
    expect_error([&] { load(other, file); }, parts);
    EXPECT_EQ(before, Everything(other, others));
  };
  for (const bool start : {false, true}) {
    const auto put = [=](const std::function<Tensor(const Tensor&)>& change) {
      return [=](State& state) {
        Tensor& own = start ? state.start() : state.momentum_buffer();
        own = change(own);
      };
    };
    const std::string what = start ? "the saved start of" : "the saved momentum of";
    refused(put([](const Tensor& own) { return own / 0; }), {what, "not finite"});
    refused(put([](const Tensor& own) { return own.to(torch::kInt); }), {what, "Int"});
    refused(put([](const Tensor& own) { return own.flatten().narrow(0, 0, 2); }), {what, "[2]"});
  }
  refused([](State& state) { state.start() = Tensor(); }, {"no start of", "distances"});
  load(other, saved(optimizer));
  EXPECT_EQ(other.steps_taken(), 2);
}

// x_0 is that of the state: a copy whose shape does not fit is an error, as for the momentum.
TEST(Stepsizes, AStartThatDoesNotFitIsRefused) {
  auto parameters = weights(Way::Core);
  Scion optimizer(parameters, options_for("distance_aware", Way::Core));
  train(optimizer, parameters, 0, 2);
  for (auto& entry : optimizer.state()) {
    static_cast<normball::optim::NormBallParamState&>(*entry.second).start() = torch::zeros({2, 2});
  }
  evaluate(parameters, 2);
  expect_error([&] { optimizer.step(); }, {"the start of 'param0'", "[2, 2]", "state().clear()"});
}

}  // namespace
