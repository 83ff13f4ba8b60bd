#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "temporary_directory.h"
#include "trainer/sweep/plan.h"

namespace normball::trainer::sweep {
namespace {

namespace fs = std::filesystem;

class PlanFile : public ::testing::Test {
 protected:
  Plan read(const std::string& text) {
    const fs::path file = fs::path(directory_.path()) / "mine.toml";
    std::ofstream(file) << text;
    return read_plan(file);
  }

  std::string error_of(const std::string& text) {
    try {
      read(text);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  }

 private:
  testing::TemporaryDirectory directory_;
};

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> result;
  for (const auto& value : axis.values) result.push_back(value.label);
  return result;
}

using Texts = std::vector<std::string>;

TEST_F(PlanFile, EveryKindOfAxis) {
  const auto plan = read(R"(
base = "demo-unconstrained-clipped-scion"
set = ["run.steps=7"]
seeds = 2
metric = "loss tail"
[[axis]]
key = "optimizer.lr"
log = [0.001, 1.0]
points = 4
[[axis]]
key = "optimizer.rho"
values = [{ label = "no clip", set = ["optimizer.method=unconstrained_scion"] }, 3, 0.5]
[[axis]]
name = "pair"
keys = ["optimizer.alpha", "train.batch"]
values = [[0.1, 10], [0.5, 20]]
)");
  EXPECT_EQ(plan.name, "mine");
  EXPECT_EQ(plan.metric, "loss tail");
  EXPECT_EQ(plan.seeds, (std::vector<std::int64_t>{0, 1}));
  ASSERT_EQ(plan.axes.size(), 3);
  EXPECT_EQ(plan.axes[0].name, "lr");
  EXPECT_EQ(labels(plan.axes[0]), (Texts{"0.001", "0.01", "0.1", "1"}));
  EXPECT_TRUE(plan.axes[0].logarithmic);
  EXPECT_EQ(labels(plan.axes[1]), (Texts{"no clip", "3", "0.5"}));
  EXPECT_EQ(plan.axes[1].values[0].settings, (Texts{"optimizer.method=unconstrained_scion"}));
  EXPECT_EQ(plan.axes[1].values[0].number, std::nullopt);
  EXPECT_EQ(plan.axes[2].values[1].settings, (Texts{"optimizer.alpha=0.5", "train.batch=20"}));

  const auto cells = cells_of(plan);
  ASSERT_EQ(cells.size(), 4 * 3 * 2 * 2);
  EXPECT_EQ(cells[0].name, "lr-0.001_rho-no-clip_pair-0.1-10_seed-0");
  EXPECT_EQ(cells[1].seed, 1);
  EXPECT_EQ(cells.back().settings, (Texts{"run.steps=7", "optimizer.lr=1", "optimizer.rho=0.5",
                                          "optimizer.alpha=0.5", "train.batch=20", "run.seed=1"}));
}

TEST_F(PlanFile, ZippedKeysNameTheirAxis) {
  const auto plan = read(
      "base = \"b\"\n[[axis]]\nkeys = [\"optimizer.lr\", \"optimizer.rho\"]\nvalues = [[1, 2]]\n");
  EXPECT_EQ(plan.axes[0].name, "lr,rho");
}

TEST_F(PlanFile, FactorsMultiplyWhatSetOrAnotherAxisGives) {
  const std::string base = "base = \"b\"\n";
  const std::string factors =
      "[[axis]]\nfactor_of = \"optimizer.lr\"\nlog = [0.1, 10]\npoints = 3\n";
  const std::string methods =
      "[[axis]]\nname = \"method\"\nkey = \"optimizer.method\"\nvalues = ["
      "{ label = \"a\", set = [\"optimizer.method=sgd\", \"optimizer.lr=0.003\"] },"
      "{ label = \"b\", set = [\"optimizer.lr=6e-4\", \"optimizer.method=adamw\"] }]\n";
  for (const auto& text : {base + methods + factors, base + factors + methods}) {
    const auto plan = read(text);
    const Axis& axis = plan.axes[plan.axes[0].name == "method" ? 1 : 0];
    EXPECT_EQ(axis.name, "lr factor");
    EXPECT_TRUE(axis.logarithmic);
    EXPECT_EQ(labels(axis), (Texts{"0.1", "1", "10"}));
    std::set<Texts> settings;
    for (const auto& cell : cells_of(plan)) settings.insert(cell.settings);
    const std::string a = "optimizer.method=sgd", b = "optimizer.method=adamw", seed = "run.seed=0";
    EXPECT_EQ(settings, (std::set<Texts>{{a, "optimizer.lr=3e-04", seed},
                                         {a, "optimizer.lr=0.003", seed},
                                         {a, "optimizer.lr=0.03", seed},
                                         {"optimizer.lr=6e-05", b, seed},
                                         {"optimizer.lr=6e-04", b, seed},
                                         {"optimizer.lr=0.006", b, seed}}));
  }
  EXPECT_EQ(cells_of(read(base + "set = [\"optimizer.lr=0.3\"]\n" + factors))[2].settings[0],
            "optimizer.lr=3");
  try {
    cells_of(read(base + factors));
    ADD_FAILURE();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("neither set nor another axis gives"),
              std::string::npos)
        << error.what();
  }
  const std::string wrong = base + "[[axis]]\nfactor_of = \"optimizer.lr\"\n";
  EXPECT_NE(error_of(wrong + "values = [0, 1]\n").find("positive numbers, got 0"),
            std::string::npos);
  EXPECT_NE(error_of(wrong + "values = [\"x\"]\n").find("positive numbers, got x"),
            std::string::npos);
  EXPECT_NE(error_of(wrong + "key = \"optimizer.lr\"\nvalues = [1]\n").find("factor_of"),
            std::string::npos);
}

TEST_F(PlanFile, DrawsAreInTheRangeAndRepeatable) {
  const std::string text =
      "base = \"demo-unconstrained-scion\"\n[[axis]]\nkey = \"optimizer.lr\"\nlog = [0.01, "
      "10.0]\ndraws = 50\n";
  const auto first = read(text + "seed = 1\n").axes[0], again = read(text + "seed = 1\n").axes[0];
  const auto other = read(text + "seed = 2\n").axes[0];
  EXPECT_EQ(labels(first), labels(again));
  EXPECT_NE(labels(first), labels(other));
  int small = 0;
  for (const auto& value : first.values) {
    EXPECT_GE(*value.number, 0.01);
    EXPECT_LE(*value.number, 10);
    small += *value.number < std::sqrt(0.01 * 10) ? 1 : 0;
  }
  EXPECT_GT(small, 12);  // half of them lie below the geometric middle
  EXPECT_LT(small, 38);
}

TEST_F(PlanFile, ErrorsNameTheLineAndTheRemedy) {
  const std::string base = "base = \"demo-unconstrained-scion\"\n";
  EXPECT_NE(error_of("seeds = 2\n").find("base = "), std::string::npos);
  EXPECT_NE(error_of(base + "sedes = 2\n").find("mine.toml:2"), std::string::npos);
  EXPECT_NE(error_of(base + "sedes = 2\n").find("did you mean 'seeds'"), std::string::npos);
  EXPECT_NE(error_of(base + "seeds = [1, -1]\n").find("seeds must be"), std::string::npos);
  EXPECT_NE(error_of(base + "seeds = 0\n").find("seeds must be"), std::string::npos);
  const std::string axis = base + "[[axis]]\nkey = \"optimizer.lr\"\n";
  EXPECT_NE(error_of(axis).find("needs values"), std::string::npos);
  EXPECT_NE(error_of(axis + "log = [0, 1]\npoints = 3\n").find("both positive"), std::string::npos);
  EXPECT_NE(error_of(axis + "log = [0.1, 1]\n").find("points = N"), std::string::npos);
  EXPECT_NE(error_of(axis + "log = [0.1, 1]\npoints = 3\nseed = 1\n").find("for draws"),
            std::string::npos);
  EXPECT_NE(error_of(axis + "values = [{ label = \"x\" }]\n").find("set = ["), std::string::npos);
  EXPECT_NE(error_of(axis + "values = [1, { label = \"x\" }]\n").find("mine.toml:4"),
            std::string::npos);
  EXPECT_NE(error_of(axis + "log = [1]\npoints = 3\n").find("mine.toml:4"), std::string::npos);
  EXPECT_NE(error_of(axis + "vlaues = [1]\n").find("mine.toml:4"), std::string::npos);
  EXPECT_NE(error_of(base + "[[axis]]\nvalues = [1]\n").find("key = "), std::string::npos);
  EXPECT_NE(error_of(base + "[axis]\nkey = \"optimizer.lr\"\n").find("[[axis]]"),
            std::string::npos);
  EXPECT_NE(error_of(base + "[[axis]]\nkeys = [\"a.b\", \"c.d\"]\nvalues = [[1, 2], 3]\n")
                .find("a list of 2"),
            std::string::npos);
}

TEST_F(PlanFile, ListsAreReadAsTheyAreTyped) {
  const auto plan = read(
      "base = \"demo-unconstrained-scion\"\n[[axis]]\nkey = \"optimizer.betas\"\n"
      "values = [[0.9, 0.95], [], [\"a\"]]\n");
  EXPECT_EQ(labels(plan.axes[0]), (Texts{"[0.9, 0.95]", "[]", "[\"a\"]"}));
  EXPECT_EQ(plan.axes[0].values[0].settings, (Texts{"optimizer.betas=[0.9, 0.95]"}));
  EXPECT_EQ(cells_of(plan)[0].name, "betas--0.9-0.95-_seed-0");
}

TEST_F(PlanFile, TheSamePlaceTwiceIsRefused) {
  const auto plan = read(
      "base = \"demo-unconstrained-scion\"\n[[axis]]\nkey = \"optimizer.lr\"\nvalues = [0.1, "
      "0.10]\n");
  EXPECT_THROW(cells_of(plan), std::invalid_argument);
}

TEST(AxisOfTheCommandLine, ShortAndLong) {
  const auto axis = parse_axis("optimizer.lr=0.1,1e-3");
  EXPECT_EQ(axis.name, "lr");
  EXPECT_EQ(axis.values[1].settings, (Texts{"optimizer.lr=1e-3"}));
  EXPECT_EQ(axis.values[1].number, 1e-3);
  EXPECT_EQ(labels(parse_axis("optimizer.method=scion,adam")), (Texts{"scion", "adam"}));
  EXPECT_EQ(labels(parse_axis("optimizer.betas=[0.9,0.95],[0.8,0.9]")),
            (Texts{"[0.9,0.95]", "[0.8,0.9]"}));
  EXPECT_EQ(labels(parse_axis("norm.hidden=spectral(solver=damped(damping=0.1)),\"a,b\",sign")),
            (Texts{"spectral(solver=damped(damping=0.1))", "\"a,b\"", "sign"}));
  const auto spaced = parse_axis("key = 'optimizer.lr', linear = [0.0, 1.0], points = 5");
  EXPECT_EQ(labels(spaced), (Texts{"0", "0.25", "0.5", "0.75", "1"}));
  for (const char* wrong :
       {"optimizer.lr", "optimizer.lr=", "optimizer.lr=1,,2", "key = 3", "lr=1"}) {
    EXPECT_THROW(parse_axis(wrong), std::invalid_argument) << wrong;
  }
}

}  // namespace
}  // namespace normball::trainer::sweep
