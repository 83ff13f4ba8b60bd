// A step of the adapter after the first allocates nothing where the core does the work.
#include <gtest/gtest.h>

#include "count_allocations.h"
#include "normball_torch/clipped_scion.h"

namespace {

using normball::optim::NormBall;
using normball::optim::NormBallOptions;
using torch::Tensor;

std::vector<Tensor> weights(torch::ScalarType type) {
  torch::manual_seed(1);
  std::vector<Tensor> result;
  for (const auto& sizes :
       std::vector<std::vector<int64_t>>{{16, 8, 3, 3}, {16}, {48, 16}, {200, 64}, {30, 16}}) {
    Tensor tensor = torch::randn(sizes, type).mul_(0.01).set_requires_grad(true);
    tensor.mutable_grad() = torch::randn(sizes, type);
    result.push_back(tensor);
  }
  return result;
}

TEST(AdapterAllocation, IsCounted) {
  const long before = allocations;
  const Tensor tensor = torch::zeros({100});
  EXPECT_GT(allocations, before);
}

// Steps with other gradients and another lr, as a schedule has it.
long allocations_of(NormBall& optimizer, const std::vector<Tensor>& parameters) {
  for (int warm_up = 0; warm_up < 2; ++warm_up) optimizer.step();
  long most = 0;
  for (int step = 0; step < 3; ++step) {
    for (const auto& parameter : parameters) parameter.grad().mul_(-0.7);
    const long before = allocations;
    for (auto& group : optimizer.param_groups()) {
      group.options().set_lr(group.options().get_lr() * 0.9);
    }
    optimizer.step();
    most = std::max(most, allocations - before);
  }
  return most;
}

TEST(AdapterAllocation, AStepAfterTheFirstAllocatesNothing) {
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    for (const std::string method : {"unconstrained_clipped_scion", "clipped_scion", "s3cg"}) {
      const auto parameters = weights(type);
      NormBallOptions options(0.01);
      options.alpha(0.1).rho(5);
      if (method == "s3cg") options.beta(100);
      NormBall optimizer(parameters, method, options);
      EXPECT_EQ(allocations_of(optimizer, parameters), 0) << method << " " << type;
    }
  }
}

TEST(AdapterAllocation, NorDoStepsizesThatFindThemselves) {
  for (const std::string stepsize : {"adagrad", "distance_aware", "auto_clipped"}) {
    const auto parameters = weights(torch::kFloat32);
    NormBall optimizer(parameters, "unconstrained_scion",
                       NormBallOptions(0.01).alpha(0.1).stepsize(stepsize));
    EXPECT_EQ(allocations_of(optimizer, parameters), 0) << stepsize;
  }
}

TEST(AdapterAllocation, GroupsRulesAndTypesMixedMakeNoDifference) {
  const auto floats = weights(torch::kFloat32), doubles = weights(torch::kFloat64);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(floats, std::make_unique<NormBallOptions>(NormBallOptions().names(
                                  {"conv", "a rather long name of a bias", "qkv", "tall", "out"})));
  groups.emplace_back(doubles, std::make_unique<NormBallOptions>(NormBallOptions(0.003)));
  NormBall optimizer(
      groups, "unconstrained_clipped_scion",
      NormBallOptions(0.01).alpha(0.1).rho(5).rules(std::vector<normball::RoutingRule>{
          {"qkv", {.split = normball::parse_split("3"), .lr = 0.02}}}));
  std::vector<Tensor> all = floats;
  all.insert(all.end(), doubles.begin(), doubles.end());
  EXPECT_EQ(allocations_of(optimizer, all), 0);
}

}  // namespace
