#include "normball/step_rule.h"

#include "testing.h"

namespace normball::testing {
namespace {

TEST(StepRule, EtaIsItsFormula) {
  const StepInput in{.pairing = 6, .direction_norm = 2, .step = 8};
  EXPECT_EQ(eta(Normalized{3}, in), 3);
  EXPECT_EQ(eta(Steepest{}, in), 6);
  EXPECT_EQ(eta(Clipped{5}, in), 5);
  EXPECT_EQ(eta(Clipped{7}, in), 6);
  EXPECT_EQ(eta(ShortStep{.rho = 9}, in), 1.5);
  EXPECT_EQ(eta(ShortStep{.rho = 1}, in), 1);
  EXPECT_EQ(eta(ShortStep{.rho = 9, .beta = 3}, in), 6.0 / 36);
  EXPECT_EQ(eta(ShortStep{.rho = 9, .variant = ShortStep::Variant::ByDiameter}, in), 1.5);
  EXPECT_EQ(eta(ShortStep{9, ShortStep::Variant::ByDiameter, 3}, in), 6.0 / 36);
  EXPECT_EQ(eta(OpenLoop{}, in), 0.2);
  EXPECT_EQ(eta(OpenLoop{}, {.pairing = 1, .step = 0}), 1);
  EXPECT_EQ(eta(Adaptive{2, 0.5}, in), 6.0 / 5);
}

TEST(StepRule, NegativeAndZeroPairingsNeverMove) {
  for (const StepRule& rule :
       {StepRule(Steepest{}), StepRule(Clipped{1}), StepRule(ShortStep{}),
        StepRule(ShortStep{1, ShortStep::Variant::ByDiameter, 1}), StepRule(Adaptive{1, 0.1}),
        StepRule(Adaptive{1, 1}), StepRule(Adaptive{0, 1})}) {
    EXPECT_EQ(eta(rule, {.pairing = -3}), 0) << rule;
    EXPECT_EQ(eta(rule, {.pairing = 0, .direction_norm = 0}), 0) << rule;
  }
}

TEST(StepRule, NanIsNoStep) {
  for (const StepRule& rule :
       {StepRule(Normalized{2}), StepRule(Steepest{}), StepRule(Clipped{1}), StepRule(ShortStep{}),
        StepRule(OpenLoop{}), StepRule(Adaptive{1, 0.1})}) {
    EXPECT_TRUE(std::isnan(eta(rule, {.pairing = std::nan("")}))) << rule;
  }
  EXPECT_TRUE(std::isnan(eta(ShortStep{}, {.pairing = 1, .direction_norm = std::nan("")})));
}

TEST(StepRule, OnlyWhatClipsIsClipped) {
  for (const StepRule& rule : {StepRule(Normalized{2}), StepRule(Steepest{}), StepRule(OpenLoop{}),
                               StepRule(Adaptive{0, 0.5})}) {
    const double longest = eta(rule, {.pairing = 1e9, .direction_norm = 1});
    EXPECT_FALSE(is_clipped(rule, longest)) << rule;
    StepRule same = rule;
    expect_invalid([&] { set_rho(same, 3); }, {"[set_rho]", to_string(rule), "clipped"});
    EXPECT_EQ(same, rule);
  }
  for (StepRule rule : {StepRule(Clipped{2}), StepRule(ShortStep{.rho = 2, .beta = 0.5})}) {
    EXPECT_TRUE(is_clipped(rule, eta(rule, {.pairing = 1e9}))) << rule;
    EXPECT_FALSE(is_clipped(rule, eta(rule, {.pairing = 0.25}))) << rule;
    EXPECT_FALSE(is_clipped(rule, eta(rule, {.pairing = -1}))) << rule;
    set_rho(rule, 7);
    EXPECT_EQ(rho(rule), 7);
  }
}

TEST(StepRule, MaxEtaBoundsEta) {
  Random random(1);
  for (const StepRule& rule :
       {StepRule(Normalized{2}), StepRule(Clipped{3}), StepRule(ShortStep{.rho = 0.5}),
        StepRule(OpenLoop{}), StepRule(Adaptive{1, 4})}) {
    for (int i = 0; i < 1000; ++i) {
      const StepInput in{std::exp(10 * random.normal()), random.uniform(),
                         static_cast<std::int64_t>(random.below(100))};
      EXPECT_LE(eta(rule, in), max_eta(rule) * (1 + 1e-15)) << rule;
    }
  }
  EXPECT_EQ(max_eta(Steepest{}), HUGE_VAL);
}

TEST(StepRule, PrintsAndParses) {
  for (const auto* text : {"normalized", "normalized(rho=2)", "steepest", "clipped(rho=600)",
                           "open_loop", "short_step(rho=0.5, norm)",
                           "short_step(rho=1, diameter, beta=2)", "adaptive(l0=1, l1=0.25)"}) {
    EXPECT_EQ(to_string(parse_step_rule(text)), text);
    EXPECT_EQ(parse_step_rule(to_string(parse_step_rule(text))), parse_step_rule(text));
  }
}

TEST(StepRuleErrors, NameTheValue) {
  expect_invalid([] { parse_step_rule("clip(rho=1)"); },
                 {"[parse_step_rule]", "'clip'", "clipped", "steepest"});
  expect_invalid([] { parse_step_rule("clipped"); }, {"[parse_step_rule]", "rho"});
  expect_invalid([] { parse_step_rule("adagrad(b0=)"); },
                 {"[parse_step_rule]", "b0= without a value"});
  for (const double bad : {0.0, -2.0, std::nan(""), HUGE_VAL}) {
    expect_invalid([&] { validate(StepRule(Clipped{bad})); }, {"[Clipped]", "rho", "positive"});
    expect_invalid([&] { validate(StepRule(Normalized{bad})); }, {"[Normalized]", "rho"});
    expect_invalid([&] { validate(StepRule(ShortStep{.rho = bad})); }, {"[ShortStep]", "rho"});
    expect_invalid([&] { validate(StepRule(ShortStep{.beta = bad})); }, {"[ShortStep]", "beta"});
  }
  expect_invalid([] { validate(StepRule(Adaptive{0, 0})); }, {"[Adaptive]", "both 0"});
  expect_invalid([] { validate(StepRule(Adaptive{-1, 1})); }, {"[Adaptive]", "-1"});
}

}  // namespace
}  // namespace normball::testing
