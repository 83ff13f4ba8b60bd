// Averages against their formulas, written out from whole trajectories in double.
#include "normball/average.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "normball/iterate_sampler.h"
#include "normball/optimizer.h"
#include "testing.h"

namespace normball::testing {
namespace {

constexpr Index rows = 3, cols = 4;

// f = Σ c_i (x_i − 1)²/2 on one matrix; the optimizer is any method.
struct Trainee {
  Matrix<double> x = Matrix<double>(rows, cols, 2), g = Matrix<double>(rows, cols);
  Optimizer<double> optimizer{unconstrained_clipped_scion(0.05, 0.7, 2),
                              {{.shape = {.rows = rows, .cols = cols}, .norm = Spectral{}}}};

  explicit Trainee(std::uint64_t seed) {
    Random random(seed);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) x(i, j) = random.normal();
    }
  }
  std::vector<MatrixView<double>> views() { return {x.view()}; }
  void gradient() {
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        g(i, j) = static_cast<double>(1 + i + cols * j) * (x(i, j) - 1);
      }
    }
  }
  void step() {
    const std::vector<Parameter<double>> parameters = {{x.view(), g.view()}};
    optimizer.step(parameters);
  }
  std::vector<double> flat() const {
    std::vector<double> all;
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) all.push_back(x(i, j));
    }
    return all;
  }
  void set(const std::vector<double>& all) {
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) x(i, j) = all[static_cast<size_t>(i * cols + j)];
    }
  }
};

using Points = std::vector<std::vector<double>>;

// The iterates of the plain method, x¹ first.
Points plain(int steps) {
  Trainee run(1);
  Points all;
  for (int k = 0; k < steps; ++k) {
    run.gradient();
    run.step();
    all.push_back(run.flat());
  }
  return all;
}

std::vector<double> mean(const Points& points, size_t from, size_t to) {
  std::vector<double> sum(points[0].size());
  for (size_t k = from; k < to; ++k) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += points[k][i];
  }
  for (double& value : sum) value /= static_cast<double>(to - from);
  return sum;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
}

// Runs with an average; the iterates stay where they are for Ema and Tail.
struct Averaging {
  Trainee run{1};
  Averaged<double> averaged;

  Averaging(const char* text, std::int64_t steps)
      : averaged(parse_average(text), {rows * cols}, steps) {}
  void step() {
    run.gradient();
    averaged.begin_step(run.views());
    run.step();
    averaged.end_step(run.views());
  }
  std::vector<double> evaluated() {
    averaged.exchange(run.views());
    auto result = run.flat();
    averaged.exchange(run.views());
    return result;
  }
};

TEST(Average, EmaIsTheMeanAndThenForgets) {
  const auto iterates = plain(40);
  Averaging all("ema(0.9)", 0);
  std::vector<double> expected;
  for (int k = 0; k < 40; ++k) {
    all.step();
    const auto& x = iterates[static_cast<size_t>(k)];
    EXPECT_EQ(all.run.flat(), x) << "the steps are those of the method alone";
    if (k < 10) {
      expected = mean(iterates, 0, static_cast<size_t>(k) + 1);
    } else {
      for (size_t i = 0; i < x.size(); ++i) expected[i] = 0.9 * expected[i] + 0.1 * x[i];
    }
    expect_near(all.evaluated(), expected, 1e-14);
  }
}

TEST(Average, TailIsTheMeanOfTheLastShare) {
  const auto iterates = plain(21);
  Averaging all("tail(0.25)", 21);  // the last 6
  for (int k = 0; k < 21; ++k) {
    all.step();
    const size_t done = static_cast<size_t>(k) + 1;
    EXPECT_EQ(all.averaged.differs(), done > 15);
    expect_near(all.evaluated(), done > 15 ? mean(iterates, 15, done) : iterates[done - 1], 1e-14);
  }
}

TEST(Average, ScheduleFreeIsItsThreeSequences) {
  Averaging all("schedule-free(beta=0.8)", 0);
  Trainee z(1);  // holds z, and is lent y for the gradient
  std::vector<double> x = z.flat(), y = x;
  for (int k = 0; k < 30; ++k) {
    all.step();
    const auto at_z = z.flat();
    z.set(y);
    z.gradient();
    z.set(at_z);
    z.step();
    const auto next = z.flat();
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = (k * x[i] + next[i]) / (k + 1);
      y[i] = 0.2 * next[i] + 0.8 * x[i];
    }
    expect_near(all.run.flat(), y, 1e-12);
    expect_near(all.evaluated(), x, 1e-12);
  }
}

TEST(Average, SodaDrawsTowardsTheStart) {
  Averaging all("soda", 0);
  Trainee by_hand(1);
  const auto start = by_hand.flat();
  for (int k = 0; k < 30; ++k) {
    all.step();
    by_hand.gradient();
    by_hand.step();
    auto x = by_hand.flat();
    for (size_t i = 0; i < x.size(); ++i) x[i] = ((k + 1) * x[i] + start[i]) / (k + 2);
    by_hand.set(x);
    expect_near(all.run.flat(), x, 1e-13);
    EXPECT_FALSE(all.averaged.differs());
  }
}

// A combination of points of the ball stays in it, whatever the weights.
TEST(Average, SodaStaysInTheBallOfAConstrainedMethod) {
  Random random(2);
  Matrix<float> x(5, 5), g(5, 5);
  const Norm norm = Spectral{};
  initialize<float>(norm, {.rows = 5, .cols = 5}, 1, x.view(), random);
  Optimizer<float> optimizer(scion(0.3, 1.0), {{.shape = {.rows = 5, .cols = 5}, .norm = norm}});
  Averaged<float> averaged(Soda{}, {25});
  const std::vector<MatrixView<float>> views = {x.view()};
  for (int k = 0; k < 50; ++k) {
    for (float& value : g.data) value = static_cast<float>(random.normal());
    averaged.begin_step(views);
    const std::vector<Parameter<float>> parameters = {{x.view(), g.view()}};
    optimizer.step(parameters);
    averaged.end_step(views);
    EXPECT_LE(normball::norm(norm, x.view()), 1 + 1e-5);
  }
}

// The points where gradients were taken, the first among them, by an IterateSampler of the seed.
TEST(Average, UniformKeepsWhatAnIterateSamplerKeeps) {
  int seen = 0;
  for (const std::uint64_t seed : {0, 5, 123456}) {
    Averaging all(("uniform(seed=" + std::to_string(seed) + ")").c_str(), 0);
    Trainee plain(1);
    IterateSampler<double> sampler(seed);
    EXPECT_FALSE(all.averaged.differs());
    for (int k = 0; k < 40; ++k) {
      const std::vector<MatrixView<double>> views = plain.views();
      if (sampler.offer(views)) ++seen;
      plain.gradient();
      plain.step();
      all.step();
      EXPECT_EQ(all.run.flat(), plain.flat()) << "the steps are those of the method alone";
      EXPECT_EQ(all.evaluated(), sampler.sample()[0]) << k;
    }
  }
  EXPECT_GT(seen, 5);
}

TEST(Average, ExchangeIsExactAndResumesToTheBit) {
  for (const char* text : {"ema(0.7)", "tail(0.5)", "schedule_free", "soda", "uniform(3)"}) {
    SCOPED_TRACE(text);
    Averaging whole(text, 20), first(text, 20);
    for (int k = 0; k < 20; ++k) whole.step();
    for (int k = 0; k < 13; ++k) first.step();
    const auto before = first.run.flat();
    const auto kept = first.evaluated();
    EXPECT_EQ(first.run.flat(), before);
    // Saved as evaluated, as checkpoints are.
    first.averaged.exchange(first.run.views());
    const bool exchanged = first.averaged.exchanged();
    EXPECT_EQ(first.run.flat(), exchanged ? kept : before);
    Averaging second(text, 20);
    second.run.set(first.run.flat());
    auto from = first.averaged.state(), to = second.averaged.state();
    for (size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(from[i].name, to[i].name);
      std::ranges::copy(from[i].values, to[i].values.begin());
    }
    second.averaged.set_steps_taken(first.averaged.steps_taken(), true);
    EXPECT_EQ(second.averaged.exchanged(), exchanged);
    if (exchanged) second.averaged.exchange(second.run.views());
    EXPECT_EQ(second.run.flat(), before);
    std::vector<NamedBuffer<const double>> momentum;
    for (const auto& buffer : first.run.optimizer.state()) {
      momentum.push_back({buffer.name, buffer.view});
    }
    second.run.optimizer.load_state(momentum, 13);
    for (int k = 13; k < 20; ++k) second.step();
    EXPECT_EQ(second.run.flat(), whole.run.flat());
    EXPECT_EQ(second.evaluated(), whole.evaluated());
  }
}

TEST(Average, ACancelledStepLeavesNoTrace) {
  for (const char* text : {"ema(0.7)", "tail(0.5)", "schedule_free", "soda", "uniform(3)"}) {
    Averaging one(text, 10), other(text, 10);
    for (int k = 0; k < 10; ++k) {
      const auto before = other.run.flat();
      const auto evaluated = other.evaluated();
      other.averaged.begin_step(other.run.views());
      other.averaged.cancel_step(other.run.views());
      EXPECT_EQ(other.run.flat(), before) << text;
      EXPECT_EQ(other.evaluated(), evaluated) << text;
      one.step();
      other.step();
      EXPECT_EQ(one.run.flat(), other.run.flat());
    }
    EXPECT_EQ(one.evaluated(), other.evaluated());
  }
}

TEST(Average, MisuseIsRefusedAndChangesNothing) {
  Averaging all("ema(0.5)", 0);
  all.step();
  const auto before = all.evaluated();
  EXPECT_THROW(all.averaged.end_step(all.run.views()), std::logic_error);
  EXPECT_THROW(all.averaged.begin_step({}), std::invalid_argument);
  Matrix<double> small(2, 2);
  const std::vector<MatrixView<double>> wrong = {small.view()};
  EXPECT_THROW(all.averaged.begin_step(wrong), std::invalid_argument);
  all.averaged.begin_step(all.run.views());
  EXPECT_THROW(all.averaged.begin_step(all.run.views()), std::logic_error);
  EXPECT_THROW(all.averaged.exchange(all.run.views()), std::logic_error);
  const double good = all.run.x(1, 1);
  all.run.x(1, 1) = std::nan("");
  EXPECT_THROW(all.averaged.end_step(all.run.views()), std::invalid_argument);
  all.run.x(1, 1) = good;
  all.averaged.cancel_step(all.run.views());
  EXPECT_EQ(all.evaluated(), before);
  all.averaged.exchange(all.run.views());
  EXPECT_THROW(all.averaged.begin_step(all.run.views()), std::logic_error);
  EXPECT_THROW(Averaged<float>(Tail{}, {4}), std::invalid_argument);
  EXPECT_THROW(Averaged<float>(Ema{}, {-1}), std::invalid_argument);
}

TEST(Average, IsAValueWithAText) {
  for (const char* text :
       {"none", "ema(decay=0.9999)", "tail(share=0.25)", "schedule_free(beta=0.9)", "soda"}) {
    EXPECT_EQ(to_string(parse_average(text)), text);
  }
  EXPECT_EQ(parse_average("ema"), Average(Ema{0.9999}));
  EXPECT_EQ(parse_average("ema(0.5)"), Average(Ema{0.5}));
  EXPECT_EQ(parse_average("tail(0.5)"), Average(Tail{0.5}));
  EXPECT_EQ(parse_average("schedule-free"), Average(ScheduleFree{}));
  EXPECT_NE(parse_average("ema"), parse_average("tail"));
  for (const char* bad : {"ema(1)", "ema(-0.1)", "ema(0.5, 0.6)", "tail(0)", "tail(1.5)",
                          "schedule_free(1)", "soda(2)", "mean", "ema(half)", ""}) {
    EXPECT_THROW(parse_average(bad), std::invalid_argument) << bad;
  }
  // Each kind once, spelled as to_string() does.
  expect_error<std::invalid_argument>([] { parse_average("mean"); },
                                      {"Allowed: none, ema, tail, schedule_free, soda or uniform"});
}

}  // namespace
}  // namespace normball::testing
