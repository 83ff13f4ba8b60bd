// Line searches in the adapter: against their formulas, by closures of every kind, in one part and
// in several, resumed, refused and misused.
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
using support::Way;
using support::ways;
using support::weights;
using torch::Tensor;

template <class Error, class Body>
void expect_error(const Body& body, const std::vector<std::string>& words) {
  try {
    body();
    ADD_FAILURE() << "no exception; expected one with " << words.front();
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const auto& word : words) {
      EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' not in: " << text;
    }
  }
}

constexpr double lr = 30;

// Σ cosh(w − noise of the step)
Tensor loss_of(const std::vector<Tensor>& parameters, int step) {
  torch::manual_seed(static_cast<uint64_t>(100 + step));
  Tensor loss = torch::zeros({}, torch::kFloat64);
  for (const auto& parameter : parameters) {
    const Tensor noise = 0.3 * torch::randn(parameter.sizes(), torch::kFloat64);
    loss = loss + torch::cosh(parameter.to(torch::kFloat64) - noise).sum();
  }
  return loss;
}

Tensor flat(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> parts;
  for (const auto& tensor : tensors) parts.push_back(tensor.detach().to(torch::kFloat64).flatten());
  return torch::cat(parts);
}

NormBallOptions options_for(const std::string& search, Way way) {
  return NormBallOptions(lr).line_search(search).force_aten(way == Way::Aten);
}

// The rules' formulas in the Euclidean norm of the whole model, where v = g / ‖g‖ and s = ‖g‖.
class Formula {
 public:
  explicit Formula(bool smooth) : smooth_(smooth) {}

  template <class Evaluate>
  double find(double loss, double s, const Evaluate& evaluate) {
    trials = 0;
    const auto falls = [&](double t) {
      return ++trials, found_ = evaluate(t), found_ <= loss - t * s / 2;
    };
    if (!smooth_) {
      double t = factor_ * lr;
      while (!falls(t)) t /= 2;
      factor_ = 2 * t / lr;
      return t;
    }
    if (split_ == 0) l0_ = s / (2 * lr), l1_ = 1 / (2 * lr), split_ = s;
    double t = s / (l0_ + l1_ * s);
    while (!falls(t)) {
      (s <= split_ ? l0_ : l1_) += (l0_ + l1_ * s) / (s <= split_ ? 1 : s);
      t = s / (l0_ + l1_ * s);
    }
    if (trials > 1) return t;
    const double met = 2 * (found_ - loss + t * s) / (t * t);
    const double shrunk = std::min(1.0, std::max(0.5, 2 * met / (l0_ + l1_ * s)));
    l0_ *= shrunk, l1_ *= shrunk;
    return t;
  }
  int trials = 0;

 private:
  bool smooth_;
  double factor_ = 1, l0_ = 0, l1_ = 0, split_ = 0, found_ = 0;
};

// A step with backward() in the closure, without, or before.
void step_by(int kind, NormBall& optimizer, std::vector<Tensor>& parameters, int step) {
  const auto backward = [&] {
    optimizer.zero_grad();
    Tensor loss = loss_of(parameters, step);
    loss.backward();
    return loss;
  };
  if (kind == 0) {
    optimizer.step(backward);
  } else if (kind == 1) {
    optimizer.step([&] { return loss_of(parameters, step); });
  } else {
    optimizer.step(backward().item<double>(),
                   [&] { return loss_of(parameters, step).item<double>(); });
  }
}

TEST(LineSearch, FollowsItsFormulasInEveryPartByEveryClosure) {
  for (const Way way : ways) {
    for (const std::string search : {"backtracking", "smoothness"}) {
      auto parameters = weights(way);
      NormBall optimizer(parameters, "normalized_gd", options_for(search, way));
      Formula formula(search == "smoothness");
      Tensor x = flat(parameters);
      const double close = way == Way::Parts ? 1e-5 : 1e-10;
      int refused = 0;
      for (int step = 0; step < 15; ++step) {
        auto at = weights(Way::Core);
        const auto put = [&](const Tensor& values) {
          const torch::NoGradGuard no_grad;
          int64_t offset = 0;
          for (auto& each : at) {
            each.copy_(values.narrow(0, offset, each.numel()).view(each.sizes()));
            offset += each.numel();
          }
        };
        put(x);
        const Tensor loss = loss_of(at, step);
        loss.backward();
        std::vector<Tensor> gradients;
        for (const auto& each : at) gradients.push_back(each.grad());
        const Tensor g = flat(gradients);
        const double s = g.norm().item<double>();
        const double t = formula.find(loss.item<double>(), s, [&](double length) {
          put(x - length * g / s);
          return loss_of(at, step).item<double>();
        });
        x = x - t * g / s;
        step_by(step % 3, optimizer, parameters, step);
        const auto& report = optimizer.search_report();
        ASSERT_TRUE(report && report->accepted);
        EXPECT_NEAR(report->step, t, close * t) << search << " step " << step;
        EXPECT_EQ(report->evaluations, formula.trials + (step == 0));
        refused += formula.trials > 1;
        EXPECT_LE((flat(parameters) - x).norm().item<double>(), close * x.norm().item<double>());
      }
      EXPECT_GT(refused, 0);
    }
  }
}

TEST(LineSearch, StaysInTheBall) {
  for (const Way way : ways) {
    auto parameters = weights(way);
    Scion optimizer(parameters, NormBallOptions(0.9)
                                    .alpha(0.7)
                                    .constrained(true)
                                    .line_search("smoothness")
                                    .force_aten(way == Way::Aten));
    optimizer.scale_into_balls();
    double longest = 0;
    for (int step = 0; step < 10; ++step) {
      const double before = loss_of(parameters, step).item<double>();
      step_by(step % 3, optimizer, parameters, step);
      longest = std::max(longest, optimizer.search_report()->step);
      EXPECT_LE(loss_of(parameters, step).item<double>(), before);
      EXPECT_LE(optimizer.scale_into_balls(), 1 + 1e-6);
    }
    EXPECT_LE(longest, 1);
  }
}

std::string saved(const NormBall& optimizer) {
  std::ostringstream out;
  torch::save(optimizer, out);
  return out.str();
}

TEST(LineSearch, ResumedRunsHaveTheSameBits) {
  for (const Way way : ways) {
    for (const std::string search : {"backtracking", "smoothness"}) {
      auto whole = weights(way, torch::kFloat32);
      const auto options = options_for(search, way).alpha(0.6).rho(2);
      ClippedScion optimizer(whole, options);
      for (int step = 0; step < 6; ++step) step_by(0, optimizer, whole, step);
      auto parts = weights(way, torch::kFloat32);
      for (size_t i = 0; i < parts.size(); ++i) parts[i].data().copy_(whole[i].data());
      ClippedScion resumed(parts, options);
      std::istringstream in(saved(optimizer));
      torch::load(resumed, in);
      for (int step = 6; step < 12; ++step) {
        step_by(0, optimizer, whole, step);
        step_by(0, resumed, parts, step);
        EXPECT_EQ(optimizer.search_report()->evaluations, resumed.search_report()->evaluations);
        EXPECT_TRUE(equal(whole, parts)) << search << " " << step;
      }
      EXPECT_EQ(optimizer.rule_memory(), resumed.rule_memory());
      const std::string other = search == "smoothness" ? "backtracking" : "smoothness";
      ClippedScion refusing(parts, options_for(other, way).alpha(0.6).rho(2));
      expect_error<std::invalid_argument>(
          [&] {
            std::istringstream again(saved(optimizer));
            torch::load(refusing, again);
          },
          {search, other});
    }
  }
}

TEST(LineSearch, WhatItRefusesChangesNothing) {
  for (const Way way : ways) {
    auto parameters = weights(way);
    NormBall optimizer(parameters, "unconstrained_scion",
                       options_for("backtracking", way).alpha(0.5));
    step_by(0, optimizer, parameters, 0);
    const Tensor before = flat(parameters);
    const std::string state = saved(optimizer);
    int calls = 0;
    const auto changed_by = [&](const std::function<Tensor(const Tensor&)>& change) {
      calls = 0;
      return [&, change]() -> Tensor {
        const Tensor loss = loss_of(parameters, 1);
        return ++calls == 1 ? loss : change(loss);
      };
    };
    const auto refuses = [&]<class Error>(const Error*, const auto& closure,
                                          const std::vector<std::string>& words) {
      expect_error<Error>([&] { optimizer.step(closure); }, words);
      EXPECT_TRUE(torch::equal(before, flat(parameters)));
      EXPECT_EQ(state, saved(optimizer));
    };
    const std::invalid_argument* invalid = nullptr;
    const std::runtime_error* runtime = nullptr;
    const NonFiniteError* nonfinite = nullptr;
    refuses(invalid, changed_by([&](const Tensor& loss) { return loss + calls; }),
            {"same batch", "nothing was changed"});
    refuses(nonfinite, changed_by([](const Tensor& loss) { return loss * std::nan(""); }),
            {"NaN after a trial step"});
    refuses(runtime, changed_by([](const Tensor&) -> Tensor { throw std::runtime_error("mine"); }),
            {"mine"});
    refuses(invalid, [] { return torch::ones({}); }, {"no gradient"});
    refuses(invalid, [] { return torch::ones({2}); }, {"one number"});
    loss_of(parameters, 1).backward();
    expect_error<std::invalid_argument>([&] { optimizer.step(); },
                                        {"backtracking", "step(closure)"});
    expect_error<std::invalid_argument>([&] { optimizer.step(1.0); }, {"step(loss, evaluate)"});
    step_by(1, optimizer, parameters, 1);
    EXPECT_TRUE(optimizer.search_report()->accepted);
  }
  auto parameters = weights(Way::Core);
  const auto refused = [&](const NormBallOptions& options, const std::vector<std::string>& words) {
    expect_error<std::invalid_argument>([&] { Scion optimizer(parameters, options); }, words);
  };
  refused(NormBallOptions(lr).line_search("backtrack"), {"backtracking"});
  refused(NormBallOptions(lr).line_search("smoothness").stepsize("adagrad"), {"adagrad", "memory"});
  refused(NormBallOptions(lr).line_search("smoothness").gradients_in_parts(true),
          {"gradients_in_parts", "whole gradient"});
  refused(NormBallOptions(lr).line_search("smoothness").overwrite_gradients(true),
          {"overwrite_gradients"});
  int calls = 0;
  NormBall skipping(parameters, "ucg",
                    NormBallOptions(lr).line_search("smoothness").skip_nonfinite(true));
  const Tensor start = flat(parameters);
  skipping.step([&] { return loss_of(parameters, 1) * (++calls > 2 ? std::nan("") : 1); });
  EXPECT_TRUE(skipping.report().skipped);
  EXPECT_TRUE(torch::equal(start, flat(parameters)));
  EXPECT_EQ(skipping.steps_taken(), 0);
  Scion plain(parameters, NormBallOptions(lr));
  expect_error<std::invalid_argument>([&] { plain.step(1.0, [] { return 1.0; }); },
                                      {"line_search"});
}

}  // namespace
