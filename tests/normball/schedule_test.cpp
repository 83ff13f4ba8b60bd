#include "normball/schedule.h"

#include "testing.h"

namespace normball::testing {
namespace {

TEST(Schedule, FollowsThePapersFormulas) {
  const Schedule constant = 0.5;
  const Schedule linear(2, LinearDecay{10});
  const Schedule warmdown(3, Warmdown{100, 20});
  const Schedule cosine(1, Cosine{50, 0.1});
  const Schedule power(2, Power{0.75});
  for (std::int64_t k = 0; k < 100; ++k) {
    const auto x = static_cast<double>(k);
    EXPECT_EQ(constant.at(k), 0.5);
    EXPECT_NEAR(linear.at(k), 2 * std::max(0.0, 1 - x / 10), 1e-15);
    EXPECT_NEAR(power.at(k), 2 / std::sqrt((x + 1) * std::sqrt(x + 1)), 1e-15);
    EXPECT_NEAR(warmdown.at(k), k < 80 ? 3 : 3 * (100 - x) / 20, 1e-14);
    if (k <= 50) {
      EXPECT_NEAR(cosine.at(k), 0.1 + 0.45 * (1 + std::cos(M_PI * x / 50)), 1e-14);
    }
  }
  EXPECT_EQ(linear.at(10), 0);
  EXPECT_EQ(linear.at(1000), 0);
  EXPECT_EQ(warmdown.at(1000), 0);
  EXPECT_EQ(cosine.at(1000), 0.1);
}

TEST(Schedule, WarmsUpLinearlyThenDecaysOverTheRest) {
  const Schedule schedule(1, LinearDecay{110}, 10);
  EXPECT_NEAR(schedule.at(0), 0.1, 1e-15);
  EXPECT_NEAR(schedule.at(9), 1, 1e-15);
  EXPECT_NEAR(schedule.at(10), 1, 1e-15);
  EXPECT_NEAR(schedule.at(60), 0.5, 1e-15);
  EXPECT_EQ(schedule.at(110), 0);
  const Schedule trapezoid(1, Warmdown{100, 20}, 10);
  EXPECT_EQ(trapezoid.at(50), 1);
  EXPECT_NEAR(trapezoid.at(90), 0.5, 1e-15);
  const Schedule power(1, Power{0.5}, 10);
  EXPECT_NEAR(power.at(4), 0.5, 1e-15);
  EXPECT_EQ(power.at(10), 1);
  EXPECT_NEAR(power.at(25), 0.25, 1e-15);
}

// The any-time form of the paper's choices: what n steps would have is what step n has.
TEST(Schedule, PowersOfTheStepAreThePapersChoicesForEveryHorizon) {
  const Schedule alpha(1, Power{0.5}), gamma(3, Power{0.5}), rho(5, Power{0.25});
  const Schedule lr(gamma.value * rho.value, Power{0.75});
  for (const std::int64_t n : {1, 2, 16, 1000, 1000000}) {
    const double root = std::sqrt(static_cast<double>(n));
    EXPECT_NEAR(alpha.at(n - 1), 1 / root, 1e-15);
    EXPECT_NEAR(rho.at(n - 1), 5 / std::sqrt(root), 1e-14);
    EXPECT_NEAR(lr.at(n - 1), gamma.at(n - 1) * rho.at(n - 1), 1e-13);
  }
}

TEST(Schedule, PrintsAndParses) {
  for (const auto* text :
       {"0.1", "1e-07", "linear(2, steps=10)", "warmdown(0.1, steps=5100, down=1450)",
        "cosine(0.1, steps=100, end=1e-07)", "cosine(0.1, steps=100, warmup=5)",
        "constant(0.5, warmup=20)", "power(0.1, exponent=0.75)",
        "power(1, exponent=0.5, warmup=5)"}) {
    EXPECT_EQ(to_string(parse_schedule(text)), text);
  }
  EXPECT_EQ(parse_schedule("constant(0.5)"), Schedule(0.5));
}

TEST(ScheduleErrors, NameTheValue) {
  expect_invalid([] { parse_schedule("lineer(1, steps=3)"); }, {"[parse_schedule]", "'linear'"});
  expect_invalid([] { parse_schedule("linear(steps=3)"); }, {"[parse_schedule]", "value"});
  expect_invalid([] { parse_schedule("linear(1)"); }, {"[parse_schedule]", "steps"});
  expect_invalid([] { parse_schedule("1.2.3"); }, {"[parse_schedule]", "1.2.3"});
  expect_invalid([] { parse_schedule("linear(1, steps=0)"); }, {"[Schedule]", "steps", "0"});
  expect_invalid([] { parse_schedule("warmdown(1, steps=5, down=6)"); }, {"[Schedule]", "6"});
  expect_invalid([] { parse_schedule("cosine(1, steps=5, warmup=5)"); }, {"[Schedule]", "5"});
  expect_invalid([] { parse_schedule("power(1)"); }, {"[parse_schedule]", "exponent"});
  expect_invalid([] { parse_schedule("power(1, exponent=-0.5)"); }, {"[Schedule]", "-0.5"});
  expect_invalid([] { parse_schedule("constant(1, warmup=-1)"); }, {"[Schedule]", "-1"});
  expect_invalid([] { validate(Schedule(std::nan(""))); }, {"[Schedule]", "nan"});
  expect_invalid([] { validate(Schedule(1, Cosine{5, HUGE_VAL})); }, {"[Schedule]", "inf"});
}

}  // namespace
}  // namespace normball::testing
