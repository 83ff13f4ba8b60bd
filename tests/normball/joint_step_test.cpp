#include "normball/joint_step.h"

#include <array>

#include "model.h"

namespace normball::testing {
namespace {

// One optimizer on all layers, and one on each of two halves that are joined.
void expect_parts_step_as_the_whole(const Method& method) {
  Model<double> whole(every_norm(), 5);
  Random random(3);
  if (method.constrained) whole.move_into_ball(random);
  Model<double> parts = whole;
  const std::vector<Layer> first(whole.layers.begin(), whole.layers.begin() + 3);
  const std::vector<Layer> second(whole.layers.begin() + 3, whole.layers.end());
  Optimizer<double> all(method, whole.layers), one(method, first), two(method, second);
  for (int k = 0; k < 4; ++k) {
    whole.new_gradients(random, 0.1);
    parts.gradients = whole.gradients;
    const StepReport& expected = all.step(whole.parameters());
    const auto parameters = parts.parameters();
    const std::span all_of_them(parameters);
    const StepReport& a = one.prepare(all_of_them.first(3));
    const StepReport& b = two.prepare(all_of_them.subspan(3));
    std::array<double, 2> shares{};
    const JointStep joint = join_parts(method, std::array{a.pairing, b.pairing},
                                       std::array{a.direction_norm, b.direction_norm}, k, shares);
    EXPECT_NEAR(joint.pairing, expected.pairing, 1e-12 * expected.pairing) << method.name;
    EXPECT_NEAR(joint.eta, expected.eta, 1e-12 * expected.eta) << method.name;
    EXPECT_NEAR(joint.wolfe_gap, expected.wolfe_gap, 1e-12 * expected.pairing) << method.name;
    EXPECT_NEAR(joint.direction_norm, expected.direction_norm, 1e-12) << method.name;
    EXPECT_EQ(joint.clipped, expected.clipped) << method.name;
    EXPECT_EQ(joint.stalled, expected.stalled) << method.name;
    one.apply(joint.eta * shares[0]);
    two.apply(joint.eta * shares[1]);
    for (size_t l = 0; l < whole.weights.size(); ++l) {
      EXPECT_LT(max_difference(whole.weights[l], parts.weights[l]), 1e-12) << method.name;
    }
  }
}

TEST(JointStep, PartsStepAsTheWholeModelDoes) {
  for (const auto name : method_names()) {
    expect_parts_step_as_the_whole(
        make_method(name, {.lr = 0.01, .alpha = 0.5, .rho = 2, .beta = 2, .l0 = 1, .l1 = 1}));
  }
  expect_parts_step_as_the_whole(clipped_scion(0.01, 0.5, 2, ShortStepForm::ByNorm));
}

// A share of 1 - 1e-16 would do for mathematics, but not for resumed runs.
TEST(JointStep, OnePartIsTheWholeToTheBit) {
  for (const auto name : method_names()) {
    const Method method =
        make_method(name, {.lr = 0.01, .alpha = 0.5, .rho = 2, .beta = 2, .l0 = 1, .l1 = 1});
    for (const double s : {0.1, 0.3606167960507095, 7.7}) {
      std::array<double, 1> share{};
      const JointStep joint = join_parts(method, std::array{s}, std::array{1.1}, 3, share);
      EXPECT_EQ(share[0], 1) << name;
      EXPECT_EQ(joint.pairing, s) << name;
      EXPECT_EQ(joint.eta, decide_step(method, s, 1.1, 3).eta) << name;
    }
  }
}

TEST(JointStep, ANegativePairingOfAConstrainedMethodStalls) {
  const JointStep joint = decide_step(clipped_scion(0.1, 1, 5), -2, 0, 0);
  EXPECT_TRUE(joint.stalled);
  EXPECT_EQ(joint.eta, 0);
  EXPECT_EQ(joint.wolfe_gap, -2);
  EXPECT_FALSE(decide_step(unconstrained_clipped_scion(0.1, 1, 5), -2, 0, 0).stalled);
}

TEST(JointStepErrors, NameWhatDoesNotFit) {
  std::array<double, 1> shares{};
  expect_invalid(
      [&] {
        join_parts(gd(0.1), std::array{1.0, 2.0}, std::array{1.0, 2.0}, 0, shares);
      },
      {"join_parts", "2 pairings", "1 shares"});
  Method method = clipped_scion(0.1, 1, 5);
  method.combination = Combination::L2;
  std::array<double, 2> two{};
  expect_invalid(
      [&] {
        join_parts(method, std::array{1.0, 2.0}, std::array{1.0, 2.0}, 0, two);
      },
      {"join_parts", "maximum"});
}

}  // namespace
}  // namespace normball::testing
