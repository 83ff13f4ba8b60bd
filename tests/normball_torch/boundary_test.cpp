// What comes in from outside: gradients and parameters of any form, groups and state that users
// change, files of others. Errors name the parameter, and nothing is touched.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "normball/normball.h"
#include "normball_torch/clipped_scion.h"
#include "support.h"

namespace {

using normball::optim::ClippedScion;
using normball::optim::ClippedScionOptions;
using normball::optim::group_of;
using normball::optim::NormBall;
using normball::optim::NormBallOptions;
using normball::optim::NormBallParamState;
using normball::optim::Scion;
using normball::optim::ScionOptions;
using support::equal;
using support::expect_error;
using support::parameter;
using torch::Tensor;
using torch::optim::OptimizerParamGroup;

ClippedScionOptions options() { return ClippedScionOptions(0.02).alpha(0.3).rho(5); }

NormBallOptions& options_of(torch::optim::Optimizer& optimizer, size_t group = 0) {
  return static_cast<NormBallOptions&>(optimizer.param_groups()[group].options());
}

// The weights and the momenta of an optimizer's parameters.
std::vector<Tensor> everything(NormBall& optimizer) {
  std::vector<Tensor> result;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& tensor : group.params()) {
      result.push_back(tensor.detach().clone());
      for (const auto& entry : optimizer.state()) {
        const auto& own = static_cast<const NormBallParamState&>(*entry.second).momentum_buffer();
        if (own.defined() && own.sizes() == tensor.sizes()) result.push_back(own.clone());
      }
    }
  }
  return result;
}

TEST(Gate, GradientsOfAnotherShape) {
  for (const bool aten : {false, true}) {
    Tensor a = parameter({4, 3}, 1), b = parameter({6, 5}, 2);
    ClippedScion optimizer({a, b}, options().force_aten(aten).names({"a", "b"}));
    optimizer.step();
    const auto before = everything(optimizer);
    for (const std::vector<int64_t>& sizes :
         {std::vector<int64_t>{5, 6}, {5}, {1, 1}, {30}, {600, 500}, {6, 5, 1}}) {
      b.mutable_grad() = torch::randn(sizes, torch::kFloat64);
      std::ostringstream text;
      text << torch::IntArrayRef(sizes);
      expect_error([&] { optimizer.step(); }, {"NormBall::step", "'b'", text.str(), "[6, 5]"});
      EXPECT_TRUE(equal(before, everything(optimizer)));
    }
    b.mutable_grad() = torch::randn({6, 5}, torch::kFloat64);
    optimizer.step();
    EXPECT_EQ(optimizer.steps_taken(), 2);
  }
}

TEST(Gate, DataReplacedByAnotherShape) {
  for (const bool aten : {false, true}) {
    Tensor a = parameter({4, 3}, 1), b = parameter({2, 2}, 2);
    ClippedScion optimizer({a, b}, options().force_aten(aten).names({"a", "b"}));
    optimizer.step();
    a.set_data(torch::cat({a.detach(), a.detach()}));
    a.mutable_grad() = torch::randn({8, 3}, torch::kFloat64);
    const Tensor weight = a.detach().clone(), other = b.detach().clone();
    expect_error([&] { optimizer.step(); }, {"'a'", "[4, 3]", "[8, 3]", "state().clear()"});
    EXPECT_TRUE(equal({weight, other}, {a.detach(), b.detach()}));
    optimizer.state().clear();
    optimizer.step();
    EXPECT_FALSE(torch::equal(weight, a.detach()));
  }
}

TEST(Gate, ViewsWithAPendingSignAreRead) {
  for (const bool aten : {false, true}) {
    const Tensor start = parameter({4, 3}, 1).detach();
    const Tensor gradient = parameter({4, 3}, 2).grad();
    // The imaginary part of a conjugate is a view with a pending sign, as is _neg_view().
    const Tensor complex = torch::complex(torch::zeros_like(gradient), gradient.neg());
    const Tensor imaginary = torch::imag(complex.conj());
    ASSERT_TRUE(imaginary.is_neg());
    std::vector<Tensor> results;
    for (const Tensor& grad : {gradient, torch::_neg_view(gradient.neg()), imaginary}) {
      Tensor w = start.clone().set_requires_grad(true);
      w.mutable_grad() = grad;
      ClippedScion optimizer(std::vector<Tensor>{w}, options().force_aten(aten));
      optimizer.step();
      results.push_back(w.detach());
    }
    EXPECT_TRUE(torch::equal(results[0], results[1]));
    EXPECT_TRUE(torch::equal(results[0], results[2]));
    // And a parameter that is such a view.
    Tensor view = torch::_neg_view(start.neg()).set_requires_grad(true);
    view.mutable_grad() = gradient;
    ClippedScion optimizer(std::vector<Tensor>{view}, options().force_aten(aten));
    optimizer.step();
    EXPECT_LE((view.detach() - results[0]).abs().max().item<double>(), 1e-14);
  }
}

TEST(Gate, OtherTypesOfGradients) {
  Tensor a = parameter({4, 3}, 1, torch::kFloat32), b = a.detach().clone().set_requires_grad(true);
  b.mutable_grad() = a.grad().to(torch::kFloat64);
  ClippedScion first(std::vector<Tensor>{a}, options()), second(std::vector<Tensor>{b}, options());
  first.step();
  second.step();
  EXPECT_TRUE(torch::equal(a.detach(), b.detach()));
  b.mutable_grad() = torch::ones({4, 3}, torch::kComplexFloat);
  expect_error([&] { second.step(); }, {"param0", "ComplexFloat"});
  const Tensor expanded = torch::zeros({1, 3}).expand({4, 3}).set_requires_grad(true);
  expect_error([&] { ClippedScion(std::vector<Tensor>{expanded}, options()).explain(); },
               {"param0", "expanded", "contiguous()"});
}

TEST(State, ClearedStartsAnew) {
  for (const bool aten : {false, true}) {
    for (const std::string solver : {"exact", "power(rank=2)"}) {
      const auto given = options().force_aten(aten).solver(solver);
      Tensor a = parameter({6, 4}, 1), b = parameter({5}, 2);
      ClippedScion optimizer({a, b}, given);
      for (int k = 0; k < 3; ++k) optimizer.step();
      Tensor c = a.detach().clone().set_requires_grad(true);
      Tensor d = b.detach().clone().set_requires_grad(true);
      c.mutable_grad() = a.grad().clone();
      d.mutable_grad() = b.grad().clone();
      ClippedScion fresh({c, d}, given);
      optimizer.state().clear();
      for (int k = 0; k < 2; ++k) {
        optimizer.step();
        fresh.step();
        EXPECT_EQ(optimizer.report().step, fresh.report().step);
        EXPECT_EQ(optimizer.report().pairing, fresh.report().pairing);
      }
      EXPECT_TRUE(equal({a.detach(), b.detach()}, {c.detach(), d.detach()})) << solver;
      optimizer.state().clear();
      std::stringstream stream;
      torch::save(optimizer, stream);  // reads no freed state
      EXPECT_FALSE(stream.str().empty());
    }
  }
}

// The core scales; so must tensor operations.
TEST(Range, VeryLargeAndSmallGradients) {
  const std::vector<std::pair<torch::ScalarType, double>> cases = {{torch::kFloat64, 1e200},
                                                                   {torch::kFloat64, 1e-200},
                                                                   {torch::kFloat32, 1e30},
                                                                   {torch::kFloat32, 1e-30}};
  for (const auto& [type, size] : cases) {
    for (const std::string norm :
         {"spectral", "spectral(solver=muon)", "row", "col", "sign", "rms", "euclidean"}) {
      for (const std::string method : {"unconstrained_scion", "scion"}) {
        std::vector<Tensor> weights;
        std::vector<double> pairings;
        for (const bool aten : {false, true}) {
          Tensor w = parameter({6, 9}, 1, type);
          w.mutable_grad() = w.grad() * size;
          NormBall optimizer(std::vector<Tensor>{w}, method,
                             NormBallOptions(0.1).norm(norm).force_aten(aten));
          optimizer.step();
          weights.push_back(w.detach());
          pairings.push_back(optimizer.report().pairing);
        }
        const double eps = type == torch::kFloat64 ? 1e-12 : 1e-5;
        EXPECT_NEAR(pairings[1] / pairings[0], 1, eps) << norm << " " << size;
        EXPECT_GT(std::abs(pairings[1]), size / 10) << norm;
        EXPECT_LE((weights[0] - weights[1]).abs().max().item<double>(), eps) << norm << " " << size;
      }
    }
  }
}

class Failing : public normball::NormOracle {
 public:
  void lmo(normball::ConstMatrixView<double> d, normball::MatrixView<double> out) const override {
    if (fail) throw std::runtime_error("the oracle fails");
    for (normball::Index i = 0; i < d.rows; ++i) {
      for (normball::Index j = 0; j < d.cols; ++j) {
        out(i, j) = not_a_number ? std::nan("") : d(i, j) > 0 ? -1 : 1;
      }
    }
  }
  mutable bool fail = false, not_a_number = false;
};

// Parts in float32, float64 and tensor operations, one of which fails.
TEST(AllOrNothing, AnErrorInOnePart) {
  for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kHalf}) {
    const auto oracle = std::make_shared<Failing>();
    Tensor half = parameter({3, 4}, 1, torch::kHalf),
           single = parameter({5, 3}, 2, torch::kFloat32);
    Tensor twice = parameter({4, 6}, 3), own = parameter({7, 2}, 4, type);
    std::vector<OptimizerParamGroup> groups = {OptimizerParamGroup({half, single, twice})};
    groups.push_back(OptimizerParamGroup(
        {own}, std::make_unique<NormBallOptions>(NormBallOptions().oracle(oracle))));
    for (const bool skip : {false, true}) {
      ClippedScion optimizer(groups, options().skip_nonfinite(skip));
      optimizer.step();
      const auto before = everything(optimizer);
      oracle->fail = true;
      EXPECT_THROW(optimizer.step(), std::runtime_error);
      oracle->fail = false;
      EXPECT_TRUE(equal(before, everything(optimizer))) << type;
      oracle->not_a_number = true;
      if (skip) {
        optimizer.step();
        EXPECT_TRUE(optimizer.report().skipped);
        EXPECT_EQ(optimizer.report().nonfinite_layer, "param3");
      } else {
        EXPECT_THROW(optimizer.step(), normball::NonFiniteError);
      }
      oracle->not_a_number = false;
      EXPECT_TRUE(equal(before, everything(optimizer))) << type;
      EXPECT_EQ(optimizer.steps_taken(), 1);
      optimizer.step();
      EXPECT_EQ(optimizer.steps_taken(), 2);
    }
  }
}

// A step that no number of a type can hold, in the second of two parts.
TEST(AllOrNothing, AStepBeyondTheNumbersOfItsType) {
  for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kHalf}) {
    for (const bool aten : {false, true}) {
      for (const bool skip : {false, true}) {
        Tensor twice = parameter({4, 3}, 1), other = parameter({4, 3}, 2, type);
        NormBall optimizer({twice, other}, "unconstrained_scion",
                           NormBallOptions(0.1)
                               .alpha(0.5)
                               .norm("sign(unit)")
                               .radius(2)
                               .names({"twice", "other"})
                               .force_aten(aten)
                               .skip_nonfinite(skip)
                               .rules(std::vector<normball::RoutingRule>{{"other", {.lr = 0.2}}}));
        optimizer.step();
        const auto before = everything(optimizer);
        options_of(optimizer).lr(type == torch::kFloat64 ? 8e307 : 1e38);  // times 2, by the rule
        if (skip) {
          optimizer.step();
          EXPECT_TRUE(optimizer.report().skipped);
        } else {
          EXPECT_THROW(optimizer.step(), normball::NonFiniteError);
        }
        EXPECT_TRUE(equal(before, everything(optimizer))) << type << aten;
        EXPECT_EQ(optimizer.steps_taken(), 1);
        options_of(optimizer).lr(0.1);
        optimizer.step();
        EXPECT_EQ(optimizer.steps_taken(), 2);
      }
    }
  }
}

// 16 bits end at 65504: a step that long, and steps that add up to it.
TEST(AllOrNothing, WeightsBeyondHalfPrecision) {
  for (const bool constrained : {false, true}) {
    for (const double start : {0.0, 60000.0}) {
      Tensor weight = torch::full({4, 4}, start, torch::kHalf).set_requires_grad(true);
      weight.mutable_grad() = -torch::ones({4, 4}, torch::kHalf);
      const double radius = start == 0 ? 1e5 : 3e4;
      const auto given = ScionOptions(1).alpha(1).norm("sign(unit)").radius(radius);
      Scion optimizer(std::vector<Tensor>{weight}, ScionOptions(given).constrained(constrained));
      if (constrained && start > 0) {  // drawn into the ball: 60000 - 60000 + 30000
        optimizer.step();
        EXPECT_TRUE(weight.eq(radius).all().item<bool>());
        continue;
      }
      const auto before = everything(optimizer);
      EXPECT_THROW(optimizer.step(), normball::NonFiniteError);
      EXPECT_TRUE(equal(before, everything(optimizer)));
      weight.mutable_grad().neg_();  // toward 0 it fits, if the step itself does
      if (start > 0) optimizer.step();
      EXPECT_TRUE(weight.eq(start > 0 ? 3e4 : 0).all().item<bool>());
    }
  }
}

// One part alone, whose s overflows.
TEST(AllOrNothing, AnSThatOverflows) {
  for (const bool aten : {false, true}) {
    for (const auto norm : {"sign", "rms", "col", "spectral"}) {
      Tensor w = parameter({4, 3}, 1);
      ClippedScion optimizer({w}, options().norm(norm).force_aten(aten));
      optimizer.step();
      const auto before = everything(optimizer);
      w.mutable_grad() = torch::full({4, 3}, 1.7e308, torch::kFloat64);
      EXPECT_THROW(optimizer.step(), normball::NonFiniteError) << norm;
      EXPECT_TRUE(equal(before, everything(optimizer))) << norm << aten;
    }
  }
}

struct Uphill final : normball::NormOracle {
  using NormOracle::lmo;
  void lmo(normball::ConstMatrixView<double> d, normball::MatrixView<double> out) const override {
    for (normball::Index i = 0; i < d.rows; ++i) {
      for (normball::Index j = 0; j < d.cols; ++j) out(i, j) = d(i, j) > 0 ? 1 : -1;
    }
  }
  std::string name() const override { return "uphill"; }
};

TEST(AllOrNothing, ANormWithTheWrongSign) {
  for (const bool aten : {false, true}) {
    Tensor w = parameter({4, 3}, 1);
    const Tensor before = w.detach().clone();
    ClippedScion optimizer({w}, options().oracle(std::make_shared<Uphill>()).force_aten(aten));
    expect_error([&] { optimizer.step(); }, {"'uphill'", "minus sign"});
    EXPECT_TRUE(torch::equal(w.detach(), before));
  }
}

TEST(Gate, MemoryThatOverlaps) {
  Tensor memory = torch::zeros({12}, torch::kFloat64);
  const Tensor first = memory.narrow(0, 0, 8).view({2, 4}), second = memory.narrow(0, 6, 6);
  expect_error(
      [&] {
        ClippedScion({first, second}, options().names({"a", "b"}));
      },
      {"'a' and 'b'", "share memory"});
  expect_error(
      [&] {
        ClippedScion({second, first}, options().names({"b", "a"}));
      },
      {"'a' and 'b'", "share memory"});
  ClippedScion({first, memory.narrow(0, 8, 4)}, options());
  ClippedScion({memory.view({3, 4}).narrow(1, 0, 2), memory.view({3, 4}).narrow(1, 2, 2)},
               options());  // columns, side by side
  expect_error(
      [&] {
        ClippedScion({memory.as_strided({3, 4}, {2, 1})}, options().names({"w"}));
      },
      {"'w'", "share memory"});
  ClippedScion({memory.as_strided({2, 2}, {3, 2})}, options());  // not in rows, but apart
}

TEST(Gate, AMomentumOnTheParametersMemory) {
  Tensor w = parameter({4, 3}, 1);
  ClippedScion optimizer({w}, options().names({"w"}));
  optimizer.step();
  const Tensor before = w.detach().clone();
  auto& state = static_cast<NormBallParamState&>(*optimizer.state().begin()->second);
  state.momentum_buffer(w.detach());
  expect_error([&] { optimizer.step(); }, {"'w'", "share memory"});
  state.momentum_buffer(torch::empty({4, 3}, torch::kMeta));
  expect_error([&] { optimizer.step(); }, {"'w'", "meta"});
  EXPECT_TRUE(torch::equal(w.detach(), before));
}

// NaN in a weight makes s NaN where constrained: no step, least of all the longest.
// In one part and across several: the second is float, or stepped by tensor operations.
TEST(Gate, AGradientOnMemoryThatTheStepWrites) {
  for (const auto& [type, view] :
       {std::pair(torch::kFloat64, false), {torch::kFloat32, false}, {torch::kFloat64, true}}) {
    Tensor a = parameter({4, 3}, 1);
    Tensor b = torch::ones({3, 4}, torch::TensorOptions(type));
    b = (view ? b.t() : b.view({4, 3})).set_requires_grad(true);
    ClippedScion optimizer({a, b}, options().names({"a", "b"}));
    b.mutable_grad() = torch::ones_like(b);
    optimizer.step();
    const auto before = everything(optimizer);
    const auto refused = [&](const std::string& first, const std::string& second) {
      expect_error([&] { optimizer.step(); }, {first, second, "share memory"});
      EXPECT_TRUE(equal(before, everything(optimizer)));
    };
    const auto on = [&](const Tensor& memory) {  // a gradient of b there
      return torch::from_blob(memory.data_ptr(), {4, 3}, torch::TensorOptions(type));
    };
    b.mutable_grad() = on(a.detach());
    refused("weight of 'a'", "gradient of 'b'");
    for (const auto& entry : optimizer.state()) {
      const auto& own = static_cast<const NormBallParamState&>(*entry.second).momentum_buffer();
      if (own.scalar_type() != torch::kFloat64 || own.data_ptr() == nullptr) continue;
      b.mutable_grad() = on(own);
      refused("momentum of '", "gradient of 'b'");
    }
    b.mutable_grad() = on(a.grad());  // both are only read
    optimizer.step();
    a.mutable_grad() = a.detach();  // that of its own ‖x‖²/2
    b.mutable_grad() = torch::ones_like(b);
    optimizer.step();
  }
}

TEST(AllOrNothing, WeightsThatAreNotFinite) {
  for (const bool aten : {false, true}) {
    Tensor a = parameter({4, 3}, 1), b = parameter({3, 2}, 2);
    ClippedScion optimizer({a, b}, options().constrained(true).force_aten(aten));
    optimizer.step();
    {
      const torch::NoGradGuard guard;
      b[0][0] = std::nan("");
    }
    const Tensor before = a.detach().clone();
    EXPECT_THROW(optimizer.step(), normball::NonFiniteError);
    EXPECT_TRUE(torch::equal(before, a.detach()));
    EXPECT_EQ(optimizer.steps_taken(), 1);
  }
}

// parameter -> (norm, radius) in the printed table.
std::map<std::string, std::string> rows(const std::string& table) {
  std::istringstream lines(table);
  std::string line, first;
  std::getline(lines, first);
  const size_t norm = first.find("norm"), why = first.find("why");
  std::map<std::string, std::string> result;
  while (std::getline(lines, line) && line.rfind("warning", 0) != 0) {
    result[line.substr(0, line.find(' '))] = line.substr(norm, why - norm);
  }
  return result;
}

TEST(Explain, ShowsWhatSteps) {
  torch::nn::Sequential net(torch::nn::Embedding(20, 8), torch::nn::Linear(8, 12),
                            torch::nn::Linear(12, 6));
  const auto given = options().radii(normball::RoleRadii{.hidden = 50, .output = 3000});
  ClippedScion by_shape(net->parameters(), given), by_module(*net, given);
  // The names are the module's, the routes those of the parameters.
  const auto plain = rows(by_shape.explain()), named = rows(by_shape.explain(*net));
  ASSERT_EQ(named.size(), 5U);
  EXPECT_EQ(named.at("0.weight"), plain.at("param0"));
  EXPECT_EQ(named.at("2.weight"), plain.at("param3"));
  EXPECT_NE(named.at("2.weight").find("spectral"), std::string::npos);
  EXPECT_EQ(rows(by_module.explain()), rows(by_module.explain(*net)));
  EXPECT_NE(rows(by_module.explain()).at("2.weight").find("sign"), std::string::npos);
  // What no group has does not change the routes of the others.
  ClippedScion partly(net->ptr<torch::nn::LinearImpl>(1)->parameters(), given);
  const std::string text = partly.explain(*net);
  EXPECT_EQ(rows(text).at("1.weight"), rows(partly.explain()).at("param0"));
  EXPECT_NE(text.find("'2.weight' is in no parameter group"), std::string::npos) << text;
}

TEST(Explain, ShowsTheMethodsNorms) {
  torch::nn::Linear net(4, 3);
  NormBall optimizer(*net, "clipped_sign", NormBallOptions(0.1).rho(1));
  for (const auto& [name, row] : rows(optimizer.explain())) {
    EXPECT_NE(row.find("sign(unit)"), std::string::npos) << name << row;
  }
  const auto refused = [&](const NormBallOptions& own, const std::string& what) {
    expect_error(
        [&] { NormBall(*net, "clipped_sign", NormBallOptions(own).lr(0.1).rho(1)).step(); },
        {"'clipped_sign'", what, "no effect"});
  };
  net->weight.mutable_grad() = torch::ones_like(net->weight);
  refused(NormBallOptions().norm("row"), "norm");
  refused(NormBallOptions().role("output"), "norm");
  refused(NormBallOptions().radius(3), "radius");
  refused(NormBallOptions().radii(normball::RoleRadii{.hidden = 3}), "radius");
}

TEST(Options, ThatHaveNoEffectAreRefused) {
  const std::vector<Tensor> one = {parameter({4, 3})};
  const auto refused = [&](const std::string& method, const NormBallOptions& bad,
                           const std::string& option) {
    expect_error([&] { NormBall(one, method, bad); }, {"[NormBall]", "'" + method + "'", option});
  };
  refused("gd", NormBallOptions(0.1).rho(2), "no rho");
  refused("gd", NormBallOptions(0.1).alpha(0.5), "no alpha");
  refused("ggnc", NormBallOptions(0.1).rho(2).beta(3), "no beta");
  refused("scion", NormBallOptions(0.1).l0(3), "no l0");
  refused("ggnc", NormBallOptions(0.1).rho(2).short_step("norm"), "short_step");
  refused("ggnc", NormBallOptions(0.1).rho(2).short_step("plain"), "short_step");
  refused("s3cg", NormBallOptions(0.1).rho(2).beta(2).short_step("plain"), "'norm' or 'diameter'");
  refused("gd", NormBallOptions(0.1).solver("muon"), "needs no solver");
  refused("clipped_sign", NormBallOptions(0.1).rho(2).solver("damped"), "needs no solver");
  // A solver is also that of a method which is a spectral norm.
  std::vector<double> pairings;
  for (const std::string solver : {"exact", "muon"}) {
    NormBall optimizer(std::vector<Tensor>{parameter({6, 5}, 1)}, "clipped_spectral",
                       NormBallOptions(0.1).rho(1).solver(solver));
    optimizer.step();
    pairings.push_back(optimizer.report().pairing);
  }
  EXPECT_NE(pairings[0], pairings[1]);
}

// Against a norm that names its solver itself.
TEST(Options, ASolverIsOfEverySpectralNormWithoutItsOwn) {
  const auto stepped = [](const NormBallOptions& whole, const NormBallOptions& of_group) {
    const Tensor weight = parameter({6, 5}, 1);
    std::vector<OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<Tensor>{weight}, std::make_unique<NormBallOptions>(of_group));
    NormBall optimizer(groups, "unconstrained_scion", whole);
    optimizer.step();
    return weight.detach().clone();
  };
  const auto whole = [] { return NormBallOptions(0.1); };
  const Tensor exact = stepped(whole(), NormBallOptions().norm("spectral(solver=exact)"));
  const Tensor muon = stepped(whole(), NormBallOptions().norm("spectral(solver=muon)"));
  ASSERT_FALSE(torch::equal(exact, muon));
  for (const std::string norm : {"auto", "spectral", "hidden"}) {
    EXPECT_TRUE(torch::equal(stepped(whole().solver("muon").norm(norm), {}), muon)) << norm;
    EXPECT_TRUE(torch::equal(stepped(whole().solver("muon"), NormBallOptions().norm(norm)), muon))
        << norm;
  }
  for (const std::string norm : {"spectral(solver=exact)", "spectral(solver = exact)"}) {
    EXPECT_TRUE(torch::equal(stepped(whole().solver("muon").norm(norm), {}), exact)) << norm;
  }
}

TEST(Options, RadiiOfRolesThatNobodyHasAreChecked) {
  const std::vector<Tensor> one = {parameter({4, 3})};
  expect_error([&] { ClippedScion(one, options().radii(normball::RoleRadii{.onehot = -3})); },
               {"'onehot'", "positive and finite", "-3"});
}

TEST(Options, OfTheWholeMayChangeInDefaults) {
  torch::nn::Linear module(3, 4);
  const auto give_gradients = [&] {
    for (auto& tensor : module->parameters()) tensor.mutable_grad() = torch::ones_like(tensor);
  };
  give_gradients();
  ClippedScion of_module(*module, options()), of_tensors(module->parameters(), options());
  ClippedScion of_names(module->named_parameters(), options());
  for (ClippedScion* optimizer : {&of_module, &of_tensors, &of_names}) {
    optimizer->step();
    auto& whole = static_cast<NormBallOptions&>(optimizer->defaults());
    whole.rho(1e-6);  // below any s
    optimizer->step();
    EXPECT_EQ(optimizer->report().eta, 1e-6);
    EXPECT_TRUE(optimizer->report().clipped);
    options_of(*optimizer).rho(7);  // that is not the place
    expect_error([&] { optimizer->step(); }, {"group 0 sets rho", "optimizer's options"});
    whole.rho(7);
    optimizer->step();
    EXPECT_EQ(optimizer->method().rule, normball::StepRule(normball::Clipped{7}));
  }
}

// As the core does with a schedule for alpha and set_rho(): the same bits, momentum included.
TEST(Options, AlphaAndRhoMayFollowASchedule) {
  using normball::Power;
  using normball::Schedule;
  const Schedule alpha(1, Power{0.5}), rho(4, Power{0.25}), lr(0.05, Power{0.75});
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    Tensor weight = parameter({6, 5}, 3).detach().to(type).set_requires_grad(true);
    const auto run = [&]<class T>(T) {
      normball::Optimizer<T> core(
          normball::unconstrained_clipped_scion(lr, alpha, rho.value),
          {{.shape = {.rows = 6, .cols = 5}, .norm = normball::Spectral{}, .radius = 2}});
      Tensor same = weight.detach().clone();
      ClippedScion optimizer({weight}, options().alpha(1).norm("spectral").radius(2));
      auto& whole = static_cast<NormBallOptions&>(optimizer.defaults());
      int clipped = 0;
      for (int k = 0; k < 12; ++k) {
        const Tensor gradient = torch::randn({6, 5}, type) / (1 + k);
        weight.mutable_grad() = gradient.clone();
        options_of(optimizer).set_lr(lr.at(k));
        whole.alpha(alpha.at(k)).rho(rho.at(k));
        optimizer.step();
        core.set_rho(rho.at(k));
        const std::vector<normball::Parameter<T>> parameters = {
            {{same.data_ptr<T>(), 6, 5}, {gradient.data_ptr<T>(), 6, 5}}};
        core.step(parameters);
        clipped += core.report().clipped ? 1 : 0;
        EXPECT_TRUE(torch::equal(weight.detach(), same)) << k;
        EXPECT_EQ(optimizer.report().eta, core.report().eta) << k;
        EXPECT_EQ(optimizer.report().threshold, rho.at(k));
      }
      EXPECT_TRUE(clipped > 0 && clipped < 12) << clipped;
    };
    type == torch::kFloat32 ? run(0.0F) : run(0.0);
  }
}

TEST(Options, ABadAlphaOrRhoOfAStepChangesNothing) {
  Tensor weight = parameter({6, 5}, 3);
  ClippedScion optimizer({weight}, options());
  optimizer.step();
  auto& whole = static_cast<NormBallOptions&>(optimizer.defaults());
  const auto before = everything(optimizer);
  whole.alpha(0);
  expect_error([&] { optimizer.step(); }, {"alpha must be in (0, 1]"});
  whole.alpha(0.5).rho(-1);
  expect_error([&] { optimizer.step(); }, {"rho", "-1"});
  EXPECT_TRUE(equal(before, everything(optimizer)));
  whole.rho(3);
  optimizer.step();
  EXPECT_EQ(optimizer.report().threshold, 3);
}

TEST(Options, SaidTwiceAreRefused) {
  torch::nn::Linear module(3, 4);
  const auto named = options().names({"a", "b"});
  const auto of_kinds = options().kinds({"linear", "bias"});
  expect_error([&] { ClippedScion(*module, named); }, {"names()", "module"});
  expect_error([&] { ClippedScion(*module, of_kinds); }, {"kinds()", "module"});
  expect_error([&] { group_of(*module, of_kinds); }, {"[group_of]", "kinds()"});
  expect_error([&] { ClippedScion(module->named_parameters(), named); }, {"names()"});
  EXPECT_EQ(ClippedScion(module->named_parameters(), of_kinds).routing().routes[0].name, "weight");
  const auto groups = [&] { return std::vector<OptimizerParamGroup>{group_of(*module)}; };
  expect_error([&] { ClippedScion(groups(), named); }, {"names", "every group"});
  expect_error([&] { ClippedScion(groups(), of_kinds); }, {"kinds", "every group"});
  ClippedScion(groups(), options());
  const auto oracle = std::make_shared<Uphill>();
  ClippedScion({parameter({4, 3}, 1)}, options().oracle(oracle));
  expect_error(
      [&] {
        ClippedScion({parameter({4, 3}, 1)}, options().oracle(oracle).norm("sign"));
      },
      {"oracle", "'sign'"});
  expect_error(
      [&] {
        ClippedScion({parameter({4, 3}, 1)}, options().overwrite_gradients(true).force_aten(true));
      },
      {"overwrite_gradients", "force_aten"});
}

// A method of one norm for all entries.
TEST(Options, ASplitWithoutEffectIsRefused) {
  for (const char* method : {"gd", "normalized_gd"}) {
    expect_error(
        [&] {
          NormBall({parameter({6, 3}, 1)}, method, NormBallOptions(0.1).split("3"));
        },
        {"split", "no effect"});
  }
}

TEST(Groups, ThatJoinHaveAnLrAtOnce) {
  ClippedScion optimizer({parameter({4, 3}, 1)}, options());
  optimizer.add_param_group(OptimizerParamGroup(
      {parameter({2, 5}, 2)}, std::make_unique<NormBallOptions>(NormBallOptions().norm("sign"))));
  EXPECT_EQ(options_of(optimizer, 1).get_lr(), 0.02);
  EXPECT_EQ(options_of(optimizer, 1).norm(), "sign");
}

TEST(Groups, LeaveOutWhatIsTheOptimizers) {
  std::vector<OptimizerParamGroup> groups;
  groups.push_back(OptimizerParamGroup(
      {parameter({4, 3}, 1)}, std::make_unique<NormBallOptions>(NormBallOptions().radius(7))));
  groups.push_back(OptimizerParamGroup(
      {parameter({4, 3}, 2)}, std::make_unique<NormBallOptions>(NormBallOptions().role("output"))));
  ClippedScion optimizer(groups, options().norm("row").radius(2));
  const auto layers = optimizer.routing().layers();
  EXPECT_EQ(normball::to_string(layers[0].norm), "row");
  EXPECT_EQ(layers[0].radius, 7);
  EXPECT_EQ(normball::to_string(layers[1].norm), "sign");
  EXPECT_EQ(layers[1].radius, 2);
}

// add_param_group() is not virtual, and what LibTorch's own does differs between versions.
TEST(Groups, AddedThroughTheBaseKeepTheirOptionsOrAreRefused) {
  const OptimizerParamGroup group(
      {parameter({4, 3}, 2)}, std::make_unique<NormBallOptions>(NormBallOptions().norm("sign")));
  ClippedScion through({parameter({4, 3}, 1)}, options()),
      itself({parameter({4, 3}, 1)}, options());
  itself.add_param_group(group);
  itself.step();
  EXPECT_EQ(normball::to_string(itself.routing().layers()[1].norm), "sign");
  static_cast<torch::optim::Optimizer&>(through).add_param_group(group);
  try {
    through.step();
    EXPECT_EQ(normball::to_string(through.routing().layers()[1].norm), "sign");
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("group 1 was added through torch::optim::Optimizer&"),
              std::string::npos)
        << error.what();
  }
}

TEST(Groups, OfSeveralModules) {
  torch::nn::Linear a(5, 3), b(3, 5);
  const auto names = [](NormBall& optimizer) {
    std::vector<std::string> result;
    for (const auto& route : optimizer.routing().routes) result.push_back(route.name);
    return result;
  };
  ClippedScion plain(std::vector<OptimizerParamGroup>{group_of(*a), group_of(*b)}, options());
  EXPECT_EQ(names(plain),
            (std::vector<std::string>{"weight", "bias", "group1.weight", "group1.bias"}));
  ClippedScion prefixed({group_of(*a, {}, "encoder"), group_of(*b, {}, "decoder")}, options());
  EXPECT_EQ(names(prefixed), (std::vector<std::string>{"encoder.weight", "encoder.bias",
                                                       "decoder.weight", "decoder.bias"}));
  for (const auto& tensor : {a->weight, b->weight})
    tensor.mutable_grad() = torch::ones_like(tensor);
  const Tensor before = b->weight.detach().clone();
  plain.step();
  EXPECT_FALSE(torch::equal(before, b->weight.detach()));
}

TEST(Groups, ParametersThatJoinAndLeave) {
  Tensor a = parameter({4, 3}, 1), b = parameter({2, 5}, 2), c = parameter({3, 3}, 3);
  ClippedScion plain({a, b}, options());
  plain.step();
  plain.param_groups()[0].params().push_back(c);
  const Tensor before = c.detach().clone();
  plain.step();
  EXPECT_FALSE(torch::equal(before, c.detach()));
  EXPECT_EQ(plain.report().layers.size(), 3U);

  ClippedScion named({a, b}, options().names({"a", "b"}).kinds({"linear", "output"}));
  auto& parameters = named.param_groups()[0].params();
  parameters.push_back(c);
  expect_error([&] { named.step(); }, {"3 parameters but 2 names", "names()"});
  parameters.erase(parameters.begin());  // as many as before, but others
  expect_error([&] { named.step(); }, {"group 0 changed", "names()"});
  options_of(named).names({"b", "c"}).kinds({"output", "linear"});
  named.step();
  EXPECT_EQ(named.routing().routes[0].name, "b");
  EXPECT_EQ(normball::to_string(named.routing().routes[0].norm), "sign");
}

TEST(Groups, RulesGiveLrs) {
  for (const bool aten : {false, true}) {
    Tensor a = parameter({4, 3}, 1), b = parameter({4, 3}, 2);
    Scion optimizer({a, b}, ScionOptions(0.4)
                                .norm("sign(unit)")
                                .force_aten(aten)
                                .names({"a", "b"})
                                .rules(std::vector<normball::RoutingRule>{{"b", {.lr = 0.8}}}));
    torch::optim::StepLR scheduler(optimizer, 1, 0.5);
    for (int k = 0; k < 4; ++k) {
      const double lr = options_of(optimizer).get_lr();
      const Tensor first = a.detach().clone(), second = b.detach().clone();
      if (k == 2) optimizer.add_param_group(OptimizerParamGroup({parameter({2}, 5)}));
      optimizer.step();
      scheduler.step();
      EXPECT_NEAR((a.detach() - first).abs().max().item<double>(), lr, 1e-15);
      EXPECT_NEAR((b.detach() - second).abs().max().item<double>(), 2 * lr, 1e-15);
    }
    EXPECT_EQ(options_of(optimizer).get_lr(), 0.05);  // the scheduler has moved it
    EXPECT_NE(optimizer.explain().find("lr 0.8 by rule 'b'"), std::string::npos);
  }
  Tensor w = parameter({4, 3}, 1);
  const std::vector<normball::RoutingRule> rules = {{"w", {.lr = 1.5}}};
  expect_error([&] { Scion({w}, ScionOptions(0.5).constrained(true).names({"w"}).rules(rules)); },
               {"'w'", "gamma eta <= 1", "1.5"});
  expect_error([&] { Scion({w}, ScionOptions(0).names({"w"}).rules(rules)); },
               {"'w'", "started at 0"});
}

// Whatever lr the resumed program starts with: the first one, the saved one, or another.
TEST(Groups, RulesKeepTheirRatioThroughAFile) {
  const auto make = [](const Tensor& a, const Tensor& b, double lr) {
    return Scion({a, b}, ScionOptions(lr)
                             .norm("sign(unit)")
                             .names({"a", "b"})
                             .rules(std::vector<normball::RoutingRule>{{"b", {.lr = 0.8}}}));
  };
  Tensor a = parameter({4, 3}, 1), b = parameter({4, 3}, 2);
  auto optimizer = make(a, b, 0.4);
  optimizer.step();
  std::stringstream file;
  torch::save(optimizer, file);
  for (const double lr : {0.4, 0.1, 0.0007}) {
    Tensor c = parameter({4, 3}, 1), d = parameter({4, 3}, 2);
    auto resumed = make(c, d, lr);
    std::istringstream in(file.str());
    torch::load(resumed, in);
    options_of(resumed).lr(0.1);  // where the schedule was
    const Tensor first = c.detach().clone(), second = d.detach().clone();
    resumed.step();
    EXPECT_NEAR((c.detach() - first).abs().max().item<double>(), 0.1, 1e-15) << lr;
    EXPECT_NEAR((d.detach() - second).abs().max().item<double>(), 0.2, 1e-15) << lr;
  }
}

TEST(Groups, WhatRoutesTellIsSaidAtOnce) {
  Tensor w = parameter({4, 3}, 1);
  expect_error([&] { ClippedScion({w}, options().radius(-1)); }, {"radius"});
  expect_error([&] { ClippedScion({w}, options().split("3")); }, {"split"});
  expect_error(
      [&] {
        ClippedScion({w}, options().rules(std::vector<normball::RoutingRule>{{"no*", {}}}));
      },
      {"'no*'", "matches no parameter"});
  const int64_t big = (int64_t{1} << 32) + 1;
  expect_error([&] { ClippedScion({w}, options().batch(big)); }, {"batch", "'param0'"});
  expect_error([&] { ClippedScion({w}, options().threads(big)); }, {"threads", "4096"});
  expect_error([&] { ClippedScion({w}, options().threads(-1)); }, {"threads", "-1"});
  for (const double clip : {-1.0, std::nan(""), HUGE_VAL}) {
    expect_error([&] { ClippedScion({w}, options().grad_clip(clip)); }, {"grad_clip"});
  }
  expect_error(
      [&] {
        ClippedScion({torch::empty({2, 2}, torch::kMeta)}, options());
      },
      {"'param0'", "meta"});
  Tensor inferred;
  {
    const c10::InferenceMode guard;
    inferred = torch::zeros({2, 2});
  }
  expect_error([&] { ClippedScion({inferred}, options()); }, {"'param0'", "inference"});
  torch::nn::ReLU none;
  expect_error([&] { ClippedScion(*none, options()); }, {"[NormBall]", "no parameters"});
}

struct Block : torch::nn::Module {
  Block() {
    conv = register_module("conv", torch::nn::Conv2d(3, 8, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    body = register_module("body", torch::nn::Linear(8, 16));
    head = register_module("head", torch::nn::Linear(16, 4));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear body{nullptr}, head{nullptr};
};

TEST(Weights, InitializedByTheirRoutes) {
  Block net;
  net.body->bias.set_requires_grad(false);
  const Tensor frozen = net.body->bias.detach().clone();
  const auto given = options().radii(normball::RoleRadii{.input = 2, .hidden = 3, .output = 20});
  ClippedScion optimizer(net, given);
  optimizer.initialize(7);
  EXPECT_TRUE(torch::equal(net.body->bias, frozen));
  EXPECT_EQ(net.norm->weight.min().item<double>(), 1);
  EXPECT_EQ(net.head->bias.abs().max().item<double>(), 0);
  // All singular values alike, and all entries: the spheres by their definitions.
  const Tensor conv = net.conv->weight.detach().reshape({8, 27});
  const double conv_norm = 2 * std::max(1.0, std::sqrt(8.0 / 3)) / 9;
  EXPECT_NEAR(torch::linalg_svdvals(conv).max().item<double>(), conv_norm, 1e-5);
  EXPECT_NEAR(torch::linalg_svdvals(conv).min().item<double>(), conv_norm, 1e-5);
  const Tensor body = torch::linalg_svdvals(net.body->weight.detach());
  EXPECT_NEAR(body.max().item<double>(), 3 * std::sqrt(2.0), 1e-5);
  EXPECT_NEAR(net.head->weight.abs().min().item<double>(), 20.0 / 16, 1e-6);
  const Tensor first = net.body->weight.detach().clone();
  optimizer.initialize(8);
  EXPECT_FALSE(torch::equal(first, net.body->weight));
  optimizer.initialize(7);
  EXPECT_TRUE(torch::equal(first, net.body->weight));
}

TEST(Weights, FarOutsideTheBallAreNamedAndBroughtBack) {
  for (const bool aten : {false, true}) {
    Tensor near = torch::zeros({3, 3}, torch::kFloat64).set_requires_grad(true);
    Tensor far = (100 * torch::eye(4, torch::kFloat64)).set_requires_grad(true);
    near.mutable_grad() = torch::eye(3, torch::kFloat64) * 1e-3;
    far.mutable_grad() = -torch::eye(4, torch::kFloat64);  // ⟨d, W⟩ = -400
    ClippedScion optimizer({near, far},
                           options().constrained(true).force_aten(aten).names({"near", "far"}));
    testing::internal::CaptureStderr();
    optimizer.step();
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find("'far'"), std::string::npos) << text;
    EXPECT_NE(text.find("scale_into_balls()"), std::string::npos) << text;
    testing::internal::CaptureStderr();
    optimizer.step();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // once
    EXPECT_EQ(optimizer.report().eta, 0);
    EXPECT_TRUE(optimizer.report().stalled);
    EXPECT_NEAR(optimizer.scale_into_balls(), 100, 1e-10);
    EXPECT_LE(optimizer.scale_into_balls(), 1 + 1e-12);
    EXPECT_NEAR(torch::linalg_svdvals(far.detach()).max().item<double>(), 1, 1e-12);
    EXPECT_EQ(near.detach().abs().max().item<double>(), 0);
    far.mutable_grad() = torch::randn({4, 4}, torch::kFloat64);
    optimizer.step();
    EXPECT_GT(optimizer.report().eta, 0);
  }
}

TEST(Weights, FrozenOnesStay) {
  Tensor frozen = 100 * torch::eye(4, torch::kFloat64), free = parameter({3, 3}, 1);
  free.detach().mul_(50);
  const Tensor before = frozen.clone();
  ClippedScion optimizer({frozen, free}, options().constrained(true));
  EXPECT_LT(optimizer.scale_into_balls(), 100 * 3);
  EXPECT_LE(optimizer.scale_into_balls(), 1 + 1e-12);  // of the free one alone
  EXPECT_TRUE(torch::equal(frozen, before));
  optimizer.initialize(1);
  EXPECT_TRUE(torch::equal(frozen, before));
}

TEST(Checkpoint, FilesOfOthersAreNamed) {
  Tensor a = parameter({4, 3}, 1), b = parameter({4, 3}, 2);
  ClippedScion optimizer(std::vector<Tensor>{a}, options());
  optimizer.step();
  const auto before = everything(optimizer);
  const auto refused = [&](const auto& what, const std::vector<std::string>& parts) {
    std::stringstream stream;
    torch::save(what, stream);
    expect_error([&] { torch::load(optimizer, stream); }, parts);
    EXPECT_TRUE(equal(before, everything(optimizer)));
    EXPECT_EQ(optimizer.steps_taken(), 1);
  };
  torch::optim::SGD sgd(std::vector<Tensor>{b}, torch::optim::SGDOptions(0.1).momentum(0.9));
  sgd.step();
  refused(sgd, {"[NormBall::load]", "another"});
  refused(torch::nn::Linear(3, 4), {"[NormBall::load]", "model"});
  ClippedScion two({a, b}, options());
  refused(two, {"[NormBall::load]", "different size"});
  ClippedScion groups(
      std::vector<OptimizerParamGroup>{OptimizerParamGroup({a}), OptimizerParamGroup({b})},
      options());
  refused(groups, {"[NormBall::load]", "parameter groups"});
  Scion scion(std::vector<Tensor>{b}, ScionOptions(0.02).alpha(0.3));
  scion.step();
  refused(scion, {"[NormBall::load]", "'unconstrained_scion'", "'unconstrained_clipped_scion'"});
  ClippedScion constrained(std::vector<Tensor>{b}, options().constrained(true));
  refused(constrained, {"[NormBall::load]", "'clipped_scion'"});
}

// Files from before the method was in them.
TEST(Checkpoint, WithoutAMethodLoads) {
  Tensor a = parameter({4, 3}, 1), b = parameter({4, 3}, 2);
  ClippedScion from(std::vector<Tensor>{a}, options()), into(std::vector<Tensor>{b}, options());
  from.step();
  torch::serialize::OutputArchive out;
  torch::optim::serialize<NormBallParamState, NormBallOptions>(out, from);
  out.write("steps", torch::IValue(from.steps_taken()));
  std::stringstream stream;
  out.save_to(stream);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  into.load(in);
  EXPECT_EQ(into.steps_taken(), 1);
  EXPECT_EQ(into.state().size(), 1U);
}

// All of them, whatever a version of LibTorch stores.
TEST(Checkpoint, OptionsAreTheProgrammes) {
  const auto oracle = std::make_shared<Failing>();
  Tensor a = parameter({4, 3}, 1), b = a.detach().clone().set_requires_grad(true);
  b.mutable_grad() = a.grad().clone();
  ClippedScion from(std::vector<Tensor>{a}, options());
  from.step();
  const auto given = options()
                         .lr(0.125)
                         .radius(3)
                         .split("2")
                         .oracle(oracle)
                         .names({"w"})
                         .kinds({"linear"})
                         .solver("muon")
                         .threads(2);
  ClippedScion into(std::vector<Tensor>{b}, given);
  const NormBallOptions before = options_of(into);
  std::stringstream stream;
  torch::save(from, stream);
  torch::load(into, stream);
  EXPECT_TRUE(options_of(into).same_but_lr(before));
  EXPECT_EQ(options_of(into).get_lr(), 0.125);
  EXPECT_EQ(into.steps_taken(), 1);
  EXPECT_EQ(into.routing().layers().size(), 2U);
}

// Forms of parameters and of use that need no care.
TEST(Anything, EmptyScalarFrozenMovedAndConverted) {
  ClippedScion nothing(std::vector<Tensor>{}, options());
  nothing.step();
  EXPECT_EQ(nothing.steps_taken(), 0);
  for (const bool aten : {false, true}) {
    Tensor empty = parameter({0, 3}, 1), scalar = parameter({}, 2), frozen = parameter({3, 2}, 3);
    Tensor w = parameter({4, 3}, 4);
    frozen.mutable_grad() = Tensor();
    frozen.set_requires_grad(false);
    const std::vector<Tensor> before = {frozen.clone(), scalar.detach().clone()};
    ClippedScion first({empty, scalar, frozen, w}, options().force_aten(aten));
    first.step();
    ClippedScion optimizer = std::move(first);
    optimizer.step();
    EXPECT_EQ(optimizer.steps_taken(), 2);
    expect_error([&] { first.step(); }, {"moved from"});     // NOLINT: on purpose
    expect_error([&] { first.explain(); }, {"moved from"});  // NOLINT
    EXPECT_TRUE(torch::equal(before[0], frozen));
    EXPECT_FALSE(torch::equal(before[1], scalar.detach()));
    // As module->to(kFloat32) does: new data of another type in the same parameter.
    w.set_data(w.detach().to(torch::kFloat32));
    w.mutable_grad() = w.grad().to(torch::kFloat32);
    optimizer.step();
    EXPECT_EQ(w.scalar_type(), torch::kFloat32);
    EXPECT_EQ(optimizer.steps_taken(), 3);
  }
}

// An exception in a closure, and options of another optimizer in a group, leave all as it was.
TEST(Anything, ErrorsOfTheCaller) {
  Tensor w = parameter({4, 3}, 1);
  ClippedScion optimizer(std::vector<Tensor>{w}, options());
  optimizer.step();
  const auto before = everything(optimizer);
  EXPECT_THROW(optimizer.step([]() -> Tensor { throw std::runtime_error("no data"); }),
               std::runtime_error);
  const auto own = optimizer.param_groups()[0].options().clone();
  optimizer.param_groups()[0].set_options(std::make_unique<torch::optim::SGDOptions>(0.1));
  expect_error([&] { optimizer.step(); }, {"group 0", "NormBallOptions"});
  EXPECT_TRUE(equal(before, everything(optimizer)));
  optimizer.param_groups()[0].set_options(own->clone());
  options_of(optimizer).lr(std::nan(""));
  expect_error([&] { optimizer.step(); }, {"lr of group 0", "nan"});
  options_of(optimizer).lr(0.1);
  optimizer.step();
  EXPECT_EQ(optimizer.steps_taken(), 2);
}

}  // namespace
