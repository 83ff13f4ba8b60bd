// What is said at the end of a run: divergence is named, and a run that learns hears nothing.
#include "trainer/train/learning_check.h"

#include <cmath>
#include <limits>

#include "testing.h"
#include "trainer/models/mlp.h"

namespace normball::trainer::train {
namespace {

std::unique_ptr<models::Model> model_with(float largest) {
  auto model = std::make_unique<models::Mlp>(
      models::MlpConfig{.channels = 1, .size = 4, .hidden = {3}, .classes = 2});
  Random random(3);
  model->initialize(random);
  const torch::NoGradGuard no_grad;
  model->parameters().front().tensor.view(-1)[5] = largest;
  return model;
}

// A run whose loss goes from `first` to `last` in a straight line, with noise of a tenth.
LearningCheck::Verdict verdict(std::int64_t steps, double first, double last, float largest,
                               std::optional<double> validation = 1.0,
                               std::int64_t resumed_after = 0) {
  Random random(7);
  LearningCheck check(steps, resumed_after > 0 ? std::optional(first) : std::nullopt);
  for (std::int64_t step = resumed_after + 1; step <= steps; ++step) {
    const double share = static_cast<double>(step - 1) / static_cast<double>(steps - 1);
    const double noise = step == 1 ? 0 : 0.1 * first * (random.uniform() - 0.5);
    check.trained(step, first + share * (last - first) + noise);
  }
  config::Config config;
  config.optimizer.lr = 0.125;
  std::optional<Evaluation> evaluation;
  if (validation) evaluation = Evaluation{.loss = *validation};
  return check.judge(config, *model_with(largest), evaluation);
}

TEST(LearningCheck, ARunThatLearnsHearsNothing) {
  for (const std::int64_t steps : {20, 100, 5000}) {
    EXPECT_EQ(verdict(steps, 5.5, 2.0, 3.f).text, "") << steps;
    EXPECT_EQ(verdict(steps, 5.5, 5.0, 3000.f).text, "") << steps;       // a little, large radii
    EXPECT_EQ(verdict(steps, 5.5, 0.001, 3.f, 40.0).text, "") << steps;  // overfitted
  }
  EXPECT_EQ(verdict(5, 5.5, 5.6, 3.f).text, "");  // too short to say
  EXPECT_EQ(verdict(100, 5.5, 2.0, 3.f, {}, 50).text, "");
  EXPECT_EQ(verdict(100, 5.5, 5.6, 3.f, {}, 97).text, "");  // only three steps seen
}

TEST(LearningCheck, ALossThatDidNotFallIsAWarning) {
  const auto flat = verdict(200, 5.5, 5.75, 3.f);
  EXPECT_FALSE(flat.diverged);
  EXPECT_NE(flat.text.find("was 5.5 at the first step and 5.7"), std::string::npos) << flat.text;
  EXPECT_NE(flat.text.find("over the last 20"), std::string::npos) << flat.text;
  EXPECT_NE(flat.text.find("lr 0.125"), std::string::npos) << flat.text;
  EXPECT_NE(verdict(200, 5.5, 5.75, 3.f, {}, 100).text, "");
}

TEST(LearningCheck, WeightsOutOfAllProportionAreNamed) {
  const auto lost = verdict(100, 5.55, 5.545, 1e31f);
  EXPECT_TRUE(lost.diverged);
  EXPECT_NE(lost.text.find("largest weight is 1e+31"), std::string::npos) << lost.text;
  EXPECT_NE(lost.text.find("too large"), std::string::npos) << lost.text;
  // Weights before a normalization may grow while the model learns.
  const auto learned = verdict(100, 5.5, 2.0, 1e9f);
  EXPECT_FALSE(learned.diverged);
  EXPECT_NE(learned.text.find("1e+09"), std::string::npos) << learned.text;
}

TEST(LearningCheck, HowShortARunIsDoesNotChangeWhatItsWeightsAreWorth) {
  for (const std::int64_t steps : {2, 3, 19, 20, 100}) {
    const auto lost = verdict(steps, 5.5, 5.4, 1.6e30f);
    EXPECT_TRUE(lost.diverged) << steps;
    EXPECT_NE(lost.text.find("was 5.5 at the first step"), std::string::npos) << lost.text;
    EXPECT_FALSE(verdict(steps, 5.5, 1.0, 1.6e30f).diverged) << steps;
  }
}

TEST(LearningCheck, ARunThatSkipsItsLastStepsHasDiverged) {
  for (const bool to_the_end : {true, false}) {
    LearningCheck check(100);
    for (std::int64_t step = 1; step <= 100; ++step) {
      const bool bad = to_the_end ? step > 60 : step % 10 == 0;
      bad ? check.skipped(step) : check.trained(step, 5.0 / static_cast<double>(step));
    }
    const auto end = check.judge({}, *model_with(3.f), Evaluation{.loss = 1});
    EXPECT_EQ(end.diverged, to_the_end) << end.text;
    EXPECT_EQ(end.text.find("10 of the last 10 steps were skipped") != std::string::npos,
              to_the_end)
        << end.text;
  }
}

TEST(LearningCheck, WhatIsNotFiniteHasDiverged) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    EXPECT_TRUE(verdict(100, 5.5, 2.0, bad).diverged);
    EXPECT_TRUE(verdict(5, 5.5, 2.0, 3.f, static_cast<double>(bad)).diverged);
  }
  EXPECT_NE(verdict(5, 5.5, 2.0, 3.f, NAN).text.find("validation loss is not finite"),
            std::string::npos);
}

}  // namespace
}  // namespace normball::trainer::train
