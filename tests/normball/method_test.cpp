// Every named method on the same problems, with the progress that its analysis promises.
#include "normball/method.h"

#include <functional>

#include "model.h"

namespace normball::testing {
namespace {

// f and its gradient (written into net.gradients) on the weights of a net.
struct Problem {
  std::string name;
  std::vector<Layer> layers;
  std::function<double(Model<double>&)> evaluate;
};

std::vector<Layer> layers_of(const std::vector<std::pair<Index, Index>>& sizes, double radius = 4) {
  std::vector<Layer> layers;
  for (const auto& [rows, cols] : sizes) {
    layers.push_back({.shape = {.rows = rows, .cols = cols}, .norm = Auto{}, .radius = radius});
  }
  return layers;
}

// ½ Σ c_i x_i² with curvatures from 0.1 to 10
double quadratic(Model<double>& net) {
  double f = 0;
  for (size_t l = 0; l < net.weights.size(); ++l) {
    auto& x = net.weights[l].data;
    for (size_t i = 0; i < x.size(); ++i) {
      const double c = std::pow(100.0, static_cast<double>(i) / static_cast<double>(x.size())) / 10;
      f += c * x[i] * x[i] / 2;
      net.gradients[l].data[i] = c * x[i];
    }
  }
  return f;
}

// Σ cosh(2 x_i) - 1: (L0, L1)-smooth, not L-smooth
double hyperbolic(Model<double>& net) {
  double f = 0;
  for (size_t l = 0; l < net.weights.size(); ++l) {
    auto& x = net.weights[l].data;
    for (size_t i = 0; i < x.size(); ++i) {
      f += 2 * std::sinh(x[i]) * std::sinh(x[i]);  // without the cancellation at 0
      net.gradients[l].data[i] = 2 * std::sinh(2 * x[i]);
    }
  }
  return f;
}

// Σ (1 - x)² + 10 (y - x²)² over pairs
double rosenbrock(Model<double>& net) {
  double f = 0;
  auto& x = net.weights[0].data;
  auto& g = net.gradients[0].data;
  for (size_t i = 0; i + 1 < x.size(); i += 2) {
    const double a = 1 - x[i], b = x[i + 1] - x[i] * x[i];
    f += a * a + 10 * b * b;
    g[i] = -2 * a - 40 * b * x[i];
    g[i + 1] = 20 * b;
  }
  return f;
}

// ½ ‖A B - M‖² for a fixed M of rank 2
double factorization(Model<double>& net) {
  static const Matrix<double> target = [] {
    Random random(99);
    return multiply(gaussian<double>(6, 2, random), gaussian<double>(2, 7, random));
  }();
  auto residual = multiply(net.weights[0], net.weights[1]);
  for (size_t i = 0; i < residual.data.size(); ++i) residual.data[i] -= target.data[i];
  net.gradients[0] = multiply(residual, transpose(net.weights[1]));
  net.gradients[1] = multiply(transpose(net.weights[0]), residual);
  return inner(residual, residual) / 2;
}

const std::vector<Problem>& problems() {
  static const std::vector<Problem> all = {
      {"quadratic", layers_of({{5, 8}, {6, 1}}), quadratic},
      {"cosh", layers_of({{4, 6}, {3, 1}}, 1), hyperbolic},
      {"rosenbrock", layers_of({{4, 2}}, 2.5), rosenbrock},
      {"factorization", layers_of({{6, 3}, {3, 7}}), factorization}};
  return all;
}

// What a method may promise on these problems at these settings.
enum class Promise {
  Converges,   // f falls by 99 % and the gradient goes to zero with a fixed step
  Approaches,  // f falls by 75 %, to a neighbourhood in proportion to the step
};

struct Case {
  Method method;
  Promise promise;
};

// Every name of the registry, at a step that its theory allows on these problems.
std::vector<Case> cases() {
  // γ = lr/ρ = 4e-4 is below 1/L in the steepest of these product norms (radius 4: L ~ 2500).
  constexpr double lr = 0.02, rho = 50;
  using enum Promise;
  std::vector<Case> all;
  for (const auto name : method_names()) {
    MethodOptions options{.lr = lr, .alpha = 1, .rho = rho, .beta = 4, .l0 = 2500, .l1 = 1};
    Promise promise = Converges;
    if (name == "gd") options.lr = 0.002;
    if (name == "sd") options.lr = 0.0001;
    if (name == "cg" || name == "s3cg" || name == "normalized_gd" || name == "ucg" ||
        name == "lars" || name == "scion" || name == "unconstrained_scion") {
      promise = Approaches;
    }
    all.push_back({make_method(name, options), promise});
  }
  return all;
}

TEST(EveryMethod, MakesTheProgressItPromises) {
  // The sanitizers see all there is in the first steps; the promise takes the rest.
  const int steps = sanitized ? 500 : 20000;
  for (const auto& [method, promise] : cases()) {
    for (const auto& problem : problems()) {
      SCOPED_TRACE(::testing::Message() << method.name << " on " << problem.name);
      Model<double> net(problem.layers, 17);
      Random random(17);
      net.move_into_ball(random);
      Optimizer<double> optimizer(method, net.layers);
      const double start = problem.evaluate(net);
      double f = start, first_s = 0, s = 0;
      for (int k = 0; k < steps; ++k) {
        f = problem.evaluate(net);
        ASSERT_TRUE(std::isfinite(f)) << "step " << k;
        s = optimizer.step(net.parameters()).pairing;
        if (k == 0) first_s = s;
        if (method.constrained && k % (steps / 20) == 0) {
          const auto views = net.weight_views();
          const ProductNorm ball(optimizer.layers());
          ASSERT_LE(ball.norm(std::span<const MatrixView<double>>(views)), 1 + 1e-12);
        }
      }
      if (sanitized) continue;
      EXPECT_LT(f, (promise == Promise::Converges ? 0.01 : 0.25) * start);
      if (promise == Promise::Converges && problem.name != "rosenbrock") {
        EXPECT_LT(s, 0.05 * first_s);
      }
    }
  }
}

// Descent at every step is what clipping buys (Theorem on GGNC); normalized descent ascends.
TEST(EveryMethod, OnlyAdaptiveStepsDescendEveryTime) {
  for (const auto& [method, promise] : cases()) {
    const bool adaptive = promise == Promise::Converges && !method.constrained;
    const bool normalized = std::holds_alternative<Normalized>(method.rule);
    if (!adaptive && !normalized) continue;
    const auto& problem = problems()[1];  // cosh
    Model<double> net(problem.layers, 17);
    Random random(17);
    net.move_into_ball(random);
    Optimizer<double> optimizer(method, net.layers);
    double last = HUGE_VAL;
    int ascents = 0;
    for (int k = 0; k < 2000; ++k) {
      const double f = problem.evaluate(net);
      ascents += f > last * (1 + 1e-12);
      last = f;
      optimizer.step(net.parameters());
    }
    if (adaptive) {
      EXPECT_EQ(ascents, 0) << method.name;
    } else {
      EXPECT_GT(ascents, 0) << method.name;
    }
  }
}

TEST(MakeMethod, ComposesWhatTheNamedFunctionsDo) {
  const MethodOptions options{.lr = 0.1, .alpha = 0.3, .rho = 7, .beta = 2};
  EXPECT_EQ(make_method("clipped_scion", options).rule, StepRule(Clipped{7}));
  EXPECT_TRUE(make_method("clipped_scion", options).constrained);
  EXPECT_EQ(make_method("unconstrained_clipped_scion", options).alpha, Schedule(0.3));
  EXPECT_EQ(make_method("s3cg", options).radius, 2);
  for (const auto name : method_names()) {
    MethodOptions everything = options;
    everything.l0 = everything.l1 = 1;
    EXPECT_EQ(make_method(name, everything).name, name);
  }
  EXPECT_EQ(parse_short_step("diameter"), ShortStepForm::ByDiameter);
}

// What is refused as unused is what, changed, changes nothing.
std::string described(std::string_view name, const MethodOptions& options) {
  const Method method = make_method(name, options);
  return to_string(method.rule) + to_string(method.alpha) + to_string(method.lr) +
         std::to_string(method.radius.value_or(0));
}

TEST(RequireAllUsed, RefusesWhatHasNoEffect) {
  const MethodOptions needed{.lr = 0.1, .rho = 3, .beta = 2, .l0 = 1, .l1 = 1};
  const std::vector<std::function<void(MethodOptions&)>> changes = {
      [](MethodOptions& o) { o.alpha = 0.5; },
      [](MethodOptions& o) { o.rho = 5; },
      [](MethodOptions& o) { o.beta = 5; },
      [](MethodOptions& o) { o.l0 = 5; },
      [](MethodOptions& o) { o.l1 = 5; },
      [](MethodOptions& o) { o.short_step = ShortStepForm::ByDiameter; }};
  for (const auto name : method_names()) {
    // Only what the method needs.
    MethodOptions own{.lr = 0.1};
    for (const auto member :
         {&MethodOptions::rho, &MethodOptions::beta, &MethodOptions::l0, &MethodOptions::l1}) {
      MethodOptions without = needed;
      without.*member = {};
      try {
        make_method(name, without);
      } catch (const std::invalid_argument&) {
        own.*member = needed.*member;
      }
    }
    EXPECT_NO_THROW(require_all_used("test", name, own)) << name;
    for (size_t i = 0; i < changes.size(); ++i) {
      MethodOptions changed = own;
      changes[i](changed);
      bool accepted = true;
      try {
        require_all_used("test", name, changed);
      } catch (const std::invalid_argument& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with("[test]")) << error.what();
        accepted = false;
      }
      EXPECT_EQ(accepted, described(name, own) != described(name, changed)) << name << ' ' << i;
    }
  }
  const auto with_form = [](std::string_view name, ShortStepForm form) {
    MethodOptions options{.lr = 0.1, .rho = 3, .short_step = form};
    if (name == "s3cg") options.beta = 2;
    require_all_used("test", name, options);
  };
  EXPECT_NO_THROW(with_form("unconstrained_clipped_scion", ShortStepForm::Plain));
  expect_invalid([&] { with_form("unconstrained_clipped_scion", ShortStepForm::ByNorm); },
                 {"[test]", "short_step 'norm'", "constrained", "leave short_step out"});
  expect_invalid([&] { with_form("s3cg", ShortStepForm::Plain); },
                 {"[test]", "'s3cg'", "'norm' or 'diameter'", "'plain'"});
  expect_invalid([&] { with_form("ggnc", ShortStepForm::Plain); },
                 {"'ggnc' does not take short_step"});
}

// What the options change is what the method is said to read.
TEST(MethodUse, IsWhatMakesADifference) {
  const MethodOptions all{.lr = 0.1, .alpha = 0.5, .rho = 3, .beta = 2, .l0 = 1, .l1 = 1};
  const auto differs = [&](std::string_view name, auto member, auto value) {
    MethodOptions changed = all;
    changed.*member = value;
    return described(name, all) != described(name, changed);
  };
  for (const auto name : method_names()) {
    SCOPED_TRACE(name);
    const MethodUse use = method_use(name);
    EXPECT_EQ(use.lr, differs(name, &MethodOptions::lr, Schedule(0.2)));
    EXPECT_EQ(use.alpha, differs(name, &MethodOptions::alpha, Schedule(0.25)));
    EXPECT_EQ(use.rho, differs(name, &MethodOptions::rho, 5.0));
    EXPECT_EQ(use.beta, differs(name, &MethodOptions::beta, 5.0));
    EXPECT_EQ(use.l0, differs(name, &MethodOptions::l0, 5.0));
    EXPECT_EQ(use.l1, differs(name, &MethodOptions::l1, 5.0));
    EXPECT_EQ(use.short_steps.size() > 1,
              differs(name, &MethodOptions::short_step, ShortStepForm::ByDiameter));
    const Method method = make_method(name, all);
    EXPECT_EQ(use.layer_norms, !method.norm);
    EXPECT_EQ(use.layer_radii, !method.radius);
    Method solved = method;
    try {
      use_solver("test", parse_polar_solver("muon"), solved);
    } catch (const std::invalid_argument&) {  // another norm
    }
    EXPECT_EQ(use.own_spectral_norm, solved.norm != method.norm);
    EXPECT_EQ(needs_lr(name, {}), use.lr);
  }
  expect_invalid([] { method_use("scoin"); }, {"unknown method 'scoin'", "scion"});
}

TEST(UseSolver, IsForSpectralNorms) {
  const PolarSolver muon = parse_polar_solver("muon");
  for (const auto name : method_names()) {
    Method method = make_method(name, {.lr = 0.1, .rho = 3, .beta = 2, .l0 = 1, .l1 = 1});
    if (method.norm && !std::holds_alternative<Spectral>(*method.norm)) {
      EXPECT_NO_THROW(use_solver("test", ExactPolar{}, method));
      expect_invalid([&] { use_solver("test", muon, method); },
                     {"[test]", "'" + std::string(name) + "'", "needs no solver", "muon"});
      continue;
    }
    use_solver("test", muon, method);
    if (!method.norm) continue;  // routing gives it to the layers
    EXPECT_EQ(std::get<Spectral>(*method.norm).solver, muon) << name;
  }
}

// A step on a matrix, and on its two halves.
TEST(SeesMatrices, WhereASplitChangesTheStep) {
  for (const auto name : method_names()) {
    const Method method = make_method(name, {.lr = 0.1, .rho = 3, .beta = 2, .l0 = 1, .l1 = 1});
    std::vector<std::vector<double>> weights;
    for (const Index parts : {1, 2}) {
      std::vector<double> w = {0.1, -0.2, 0.3, 0.1, 0.2, -0.1, 0.3, 0.2};
      std::vector<double> g = {1, 2, -3, 4, 0.5, -1, 2, 7};
      const Index rows = 4 / parts;
      std::vector<Parameter<double>> parameters;
      for (Index at = 0; at < 8; at += rows * 2) {
        parameters.push_back({{w.data() + at, rows, 2}, {g.data() + at, rows, 2}});
      }
      const std::vector<Layer> layers(parameters.size(),
                                      {.shape = {.rows = rows, .cols = 2}, .norm = Spectral{}});
      Optimizer<double>(method, layers).step(parameters);
      weights.push_back(std::move(w));
    }
    double difference = 0;
    for (size_t i = 0; i < 8; ++i) {
      difference = std::max(difference, std::abs(weights[0][i] - weights[1][i]));
    }
    EXPECT_EQ(sees_matrices(method), difference > 1e-12) << name << ' ' << difference;
  }
}

TEST(MakeMethodErrors, SayWhatIsMissingOrUnknown) {
  expect_invalid([] { make_method("clipped_cion", {}); },
                 {"[make_method]", "'clipped_cion'", "did you mean 'clipped_scion'", "lars"});
  expect_invalid([] { make_method("clipped_scion", {.lr = 0.1}); },
                 {"[make_method]", "'clipped_scion'", "rho"});
  expect_invalid([] { make_method("scion", {}); }, {"[make_method]", "lr"});
  expect_invalid([] { make_method("s3cg", {.lr = 0.1, .rho = 1}); }, {"[make_method]", "beta"});
  for (const MethodOptions& half : {MethodOptions{}, {.l0 = 1}, {.l1 = 1}}) {
    expect_invalid([&] { make_method("adaptive_sd", half); }, {"'adaptive_sd' needs l0 and l1"});
  }
  expect_invalid([] { validate(clipped_gd(0.1, 1e-320)); }, {"[Method]", "lr / rho", "0.1"});
  expect_invalid([] { parse_short_step("short"); }, {"[parse_short_step]", "'short'", "plain"});
}

}  // namespace
}  // namespace normball::testing
