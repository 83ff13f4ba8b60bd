#include "normball/line_search.h"

#include "model.h"

namespace normball::testing {
namespace {

using Net = Model<double>;

// f = Σ cosh(w_i), and its gradient.
double loss(const Net& net) {
  double sum = 0;
  for (const auto& weight : net.weights) {
    for (const double w : weight.data) sum += std::cosh(w);
  }
  return sum;
}
void backward(Net& net) {
  for (size_t l = 0; l < net.weights.size(); ++l) {
    for (size_t i = 0; i < net.weights[l].data.size(); ++i) {
      net.gradients[l].data[i] = std::sinh(net.weights[l].data[i]);
    }
  }
}

// <∇f(start), start − end>
double slope_of(const Net& start, const Net& end) {
  double sum = 0;
  for (size_t l = 0; l < start.weights.size(); ++l) {
    for (size_t i = 0; i < start.weights[l].data.size(); ++i) {
      const double w = start.weights[l].data[i];
      sum += std::sinh(w) * (w - end.weights[l].data[i]);
    }
  }
  return sum;
}

Method method_of(bool constrained, double lr) {
  return constrained ? clipped_scion(lr, 0.7, 5) : unconstrained_clipped_scion(lr, 0.7, 5);
}

struct Searched {
  Net net{every_norm(), 5};
  Optimizer<double> optimizer;
  LineSearch<double> search;

  explicit Searched(const Method& method, const SearchRule& how = Backtracking{})
      : optimizer(method, net.layers, {.undoable = true}), search(optimizer, how) {
    Random random(3);
    net.move_into_ball(random);
  }
  SearchReport step() {
    backward(net);
    return search.step(net.parameters(), loss(net), [this] { return loss(net); });
  }
  std::vector<double> state() {
    std::vector<double> all;
    for (const auto& [name, view] : optimizer.state()) {
      all.insert(all.end(), view.data, view.data + view.size());
    }
    return all;
  }
};

// The inequality by the loss alone, and the step by an optimizer that is told the same η.
TEST(LineSearch, TakesTheFirstStepThatDescendsEnough) {
  for (const bool constrained : {false, true}) {
    for (const double lr : {constrained ? 1.0 : 30.0, 0.1, 1e-4}) {
      Searched run(method_of(constrained, lr));
      Net same = run.net;
      Optimizer<double> plain(method_of(constrained, lr), same.layers);
      for (int k = 0; k < 20; ++k) {
        const double before = loss(run.net);
        const double factor = k == 0 ? 1 : run.search.memory()[0];
        const Net start = run.net;
        const SearchReport report = run.step();
        ASSERT_TRUE(report.accepted) << k;
        EXPECT_NEAR(report.loss, loss(run.net), 1e-12 * before) << k;
        const double s = run.optimizer.report().pairing;
        const double slope = slope_of(start, run.net) / report.step;
        EXPECT_NEAR(report.slope, slope, 1e-9 * slope);
        EXPECT_LE(report.loss, before - 0.5 * report.step * report.slope);
        EXPECT_LE(report.step, constrained ? 1 : HUGE_VAL);
        // Only as much shorter than the first trial as there were trials.
        const double first = factor * run.optimizer.report().gamma * std::min(5.0, s);
        const int trials = report.evaluations - (k == 0 ? 1 : 0);
        EXPECT_NEAR(report.step,
                    (constrained ? std::min(1.0, first) : first) * std::pow(0.5, trials - 1),
                    1e-12 * first);
        backward(same);
        plain.prepare(same.parameters());
        plain.apply(report.step / plain.report().gamma);
        EXPECT_EQ(same.weights, run.net.weights) << k;
      }
    }
  }
}

// Its own factor finds the scale of γ: from an lr far too small or too large to the same losses.
TEST(LineSearch, DoesNotNeedTheRightLr) {
  std::vector<double> reached;
  for (const double lr : {1e-5, 1.0, 1e5}) {
    Searched run(method_of(false, lr), Backtracking{.evaluations = 60});
    for (int k = 0; k < 80; ++k) run.step();
    reached.push_back(loss(run.net));
    Searched other(method_of(false, lr), Smoothness{.evaluations = 60});
    int evaluations = 0;
    for (int k = 0; k < 80; ++k) evaluations += other.step().evaluations;
    reached.push_back(loss(other.net));
    EXPECT_LT(evaluations, 1.5 * 80);
  }
  const Net net(every_norm(), 5);
  double least = 0;  // cosh(0) = 1 for every entry
  for (const auto& weight : net.weights) least += static_cast<double>(weight.data.size());
  for (const double each : reached) EXPECT_LT(each, 1.05 * least);
}

// The formulas of search_rule.h, from the losses alone.
TEST(LineSearch, SmoothnessEstimatesWhatItsFormulasSay) {
  Searched run(method_of(false, 30), Smoothness{.relax = 0.8, .margin = 1.2});
  double l0 = 0, l1 = 0, split = 0;
  for (int k = 0; k < 30; ++k) {
    const Net start = run.net;
    const double before = loss(start);
    const SearchReport report = run.step();
    ASSERT_TRUE(report.accepted);
    const double own = run.optimizer.report().gamma * std::min(5.0, run.optimizer.report().pairing);
    const double s = report.slope;
    if (k == 0) {
      l0 = 0.5 * s / own, l1 = 0.5 / own, split = s;
    }
    const int trials = report.evaluations - (k == 0 ? 1 : 0);
    const double first = s / (l0 + l1 * s);
    EXPECT_NEAR(report.step, first * std::pow(0.5, trials - 1), 1e-9 * first);
    for (int i = 1; i < trials; ++i) (s <= split ? l0 : l1) += (l0 + l1 * s) / (s <= split ? 1 : s);
    if (trials == 1) {
      const double t = report.step, met = 2 * (report.loss - before + t * s) / (t * t);
      const double factor = std::min(1.0, std::max(0.8, 1.2 * met / (l0 + l1 * s)));
      l0 *= factor, l1 *= factor;
    }
    EXPECT_NEAR(run.search.memory()[0], l0, 1e-9 * l0) << k;
    EXPECT_NEAR(run.search.memory()[1], l1, 1e-9 * l1) << k;
  }
}

TEST(LineSearch, ResumedRunsAreBitIdentical) {
  for (const char* how : {"backtracking", "smoothness"}) {
    const SearchRule rule = parse_line_search(how);
    Searched whole(method_of(false, 0.1), rule), second(method_of(false, 0.1), rule);
    for (int k = 0; k < 5; ++k) whole.step();
    second.net = whole.net;
    std::vector<NamedBuffer<const double>> saved;
    for (const auto& [name, view] : whole.optimizer.state()) saved.push_back({name, view});
    second.optimizer.load_state(saved, whole.optimizer.steps_taken());
    second.search.load_memory(whole.search.memory());
    for (int k = 0; k < 5; ++k) {
      EXPECT_EQ(whole.step().evaluations, second.step().evaluations);
      EXPECT_EQ(whole.net.weights, second.net.weights) << k;
      EXPECT_TRUE(std::ranges::equal(whole.search.memory(), second.search.memory()));
    }
    expect_invalid([&] { second.search.load_memory({}); }, {how, "remembers", "got 0"});
  }
}

TEST(LineSearch, BadUseChangesNothing) {
  Searched run(method_of(false, 0.1));
  run.step();
  const auto weights = run.net.weights;
  const auto state = run.state();
  const double factor = run.search.memory()[0];
  const auto untouched = [&] {
    EXPECT_EQ(run.net.weights, weights);
    EXPECT_EQ(run.state(), state);
    EXPECT_EQ(run.search.memory()[0], factor);
    EXPECT_EQ(run.optimizer.steps_taken(), 1);
    EXPECT_FALSE(run.optimizer.prepared());
  };
  backward(run.net);
  const double f = loss(run.net);
  const auto parameters = run.net.parameters();
  expect_error<NonFiniteError>([&] { run.search.step(parameters, f, [] { return std::nan(""); }); },
                               {"NaN", "trial"});
  untouched();
  expect_error<NonFiniteError>(
      [&] { run.search.step(parameters, std::nan(""), [] { return 1.0; }); }, {"loss is nan"});
  untouched();
  int calls = 0;  // a loss that is higher each time
  expect_invalid([&] { run.search.step(parameters, f, [&] { return f + ++calls; }); },
                 {"[line search]", "same batch", "nothing was changed"});
  untouched();
  expect_error<std::runtime_error>(
      [&] {
        run.search.step(parameters, f, []() -> double { throw std::runtime_error("[mine]"); });
      },
      {"[mine]"});
  untouched();
  EXPECT_TRUE(run.step().accepted);

  Searched fresh(method_of(false, 0.1));  // compares at its first step
  backward(fresh.net);
  expect_invalid([&] { fresh.search.step(fresh.net.parameters(), 1, [] { return 2.0; }); },
                 {"loss is 1", "it is 2"});
}

// Where nothing descends the weights stay, the average takes the gradient in, and steps get
// shorter.
TEST(LineSearch, StaysWhereNothingDescends) {
  Searched run(method_of(false, 0.1), Backtracking{.evaluations = 4});
  const auto weights = run.net.weights;
  backward(run.net);
  const auto report = run.search.step(run.net.parameters(), 7,
                                      [&] { return run.net.weights == weights ? 7.0 : 8.0; });
  EXPECT_FALSE(report.accepted);
  EXPECT_EQ(report.step, 0);
  EXPECT_EQ(run.net.weights, weights);
  EXPECT_EQ(run.search.memory()[0], 1.0 / 16);
  EXPECT_EQ(run.optimizer.steps_taken(), 1);
}

TEST(SearchRule, PrintsParsesAndRefuses) {
  for (const auto* text :
       {"backtracking", "backtracking(decrease=0.1, shrink=0.75, grow=1.5, evaluations=5)",
        "smoothness", "smoothness(decrease=0.6, relax=1, margin=3, evaluations=5)"}) {
    EXPECT_EQ(to_string(parse_line_search(text)), text);
  }
  EXPECT_NE(parse_line_search("backtracking"), parse_line_search("smoothness"));
  EXPECT_NE(parse_line_search("smoothness"), parse_line_search("smoothness(relax=1)"));
  const auto refused = [](const char* text, std::vector<std::string> words) {
    expect_invalid([&] { parse_line_search(text); }, words);
  };
  refused("backtrack", {"'backtrack'", "backtracking"});
  refused("backtracking(shrink=1)", {"shrink", "1"});
  refused("backtracking(grow=0.5)", {"grow", "0.5"});
  refused("backtracking(evaluations=1.5)", {"whole number"});
  refused("smoothness(relax=0)", {"relax", "0"});
  refused("smoothness(margin=0.5)", {"margin", "0.5"});
  refused("smoothness(decrease=1)", {"decrease", "1"});
  refused("smoothness(shrink=0.5)", {"shrink"});
  Net net(every_norm());
  Optimizer<double> adagrad(make_method("ucg", {.lr = 1, .stepsize = AdaGrad{}}), net.layers,
                            {.undoable = true});
  expect_invalid([&] { LineSearch<double> search(adagrad); }, {"[LineSearch]", "adagrad"});
  for (const Execution& execution : {Execution{},
                                     {.overwrite_gradients = true, .undoable = true},
                                     {.light = true, .undoable = true}}) {
    Optimizer<double> other(ggnc(1, 1), net.layers, execution);
    expect_invalid([&] { LineSearch<double> search(other); },
                   {"[LineSearch]", "Execution::undoable", "overwrite_gradients"});
  }
}

}  // namespace
}  // namespace normball::testing
