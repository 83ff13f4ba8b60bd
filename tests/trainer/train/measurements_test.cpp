// What runs measure of layers, of the full gradient and of smoothness, against the steps themselves
// and against formulas; and that training is the same with it and without.
#include "trainer/train/measurements.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <map>
#include <sstream>

#include "testing.h"
#include "tests/trainer/data/data_samples.h"
#include "tests/trainer/run_testing.h"
#include "trainer/run/metrics.h"
#include "trainer/train/trainer.h"

namespace normball::trainer::train {
namespace {

using Lines = std::vector<run::MetricsLine>;

class MeasurementsTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t images = 24, side = 10;

  MeasurementsTest() {
    at::set_num_threads(1);
    Random random(3);
    testing::ByteVector pixels(images * side * side), labels(images);
    for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(random.below(256));
    for (size_t i = 0; i < images; ++i) labels[i] = static_cast<std::uint8_t>(i % 4);
    for (const std::string part : {"train", "t10k"}) {
      testing::write((scratch_ / (part + "-images-idx3-ubyte")).string(),
                     testing::idx_file({images, side, side}, pixels));
      testing::write((scratch_ / (part + "-labels-idx1-ubyte")).string(),
                     testing::idx_file({images}, labels));
    }
    std::string text;
    for (int i = 0; i < 60; ++i) text += "the hello " + std::to_string(i * 7919) + "\n";
    testing::write((scratch_ / "text.txt").string(), text);
  }

  config::Config config(const std::vector<std::string>& settings) const {
    config::Config config;
    config.run.dir = (scratch_ / "runs").string();
    std::vector<std::string> all = {
        "run.steps=5",         "run.threads=1",           "run.log_every=1",
        "run.eval_every=0",    "data.kind=fashion-mnist", "data.path=" + scratch_.path().string(),
        "train.batch=24",      "eval.batches=1",          "model.kind=mlp",
        "model.hidden=[6, 5]", "optimizer.lr=0.05",       "optimizer.rho=2"};
    all.insert(all.end(), settings.begin(), settings.end());
    for (const auto& setting : all) config::apply_setting(config, setting);
    return config;
  }

  // With the softmax regression below, whose norms are formulas.
  config::Config regression(std::vector<std::string> more = {}) const {
    for (const char* setting :
         {"model.hidden=[]", "norm.output=sign", "norm.output_radius=3", "norm.vector=sign",
          "norm.vector_radius=0.5", "optimizer.alpha=1"}) {
      more.insert(more.begin(), setting);
    }
    return config(more);
  }

  std::string train(config::Config config, const std::string& name,
                    std::int64_t stop_after = 0) const {
    config.run.name = name;
    std::ostringstream screen;
    runtime::Progress progress(screen, false);
    return Trainer(config, {.stop_after = stop_after}).run(progress).checkpoint;
  }

  Lines lines(const std::string& name) const {
    return run::read_metrics(scratch_ / "runs" / name / "metrics.jsonl").lines;
  }
  // By step.
  std::map<std::int64_t, double> curve(const std::string& run, std::string_view name) const {
    std::map<std::int64_t, double> values;
    for (const auto& line : lines(run)) {
      if (const auto value = line.number(name)) values[line.step] = *value;
    }
    return values;
  }

  testing::ScratchDirectory scratch_;
};

TEST_F(MeasurementsTest, TrainingIsTheSameWithThem) {
  const std::vector<std::vector<std::string>> kinds = {
      {"model.kind=mlp"},
      {"model.kind=mlp", "optimizer.method=scion", "train.average=ema"},
      {"model.kind=cnn", "model.width_factor=0.03", "train.batch=8", "data.flip=true"},
      {"model.kind=vit", "model.layers=2", "model.width=8", "model.heads=2", "model.patch=5",
       "model.drop=0.5", "train.batch=8", "train.micro_batch=4"},
      {"model.kind=gpt", "model.layers=1", "model.width=8", "model.heads=2", "model.context=8",
       "model.vocab=256", "data.kind=text", "data.path=" + (scratch_ / "text.txt").string(),
       "train.batch=4"}};
  for (size_t i = 0; i < kinds.size(); ++i) {
    SCOPED_TRACE(kinds[i][0]);
    const auto name = std::to_string(i), measured = name + "-measured";
    const auto plain = train(config(kinds[i]), name);
    auto more = kinds[i];
    for (const char* key : {"layers_every=2", "gap_every=2", "gap_batches=2", "probe_every=1"}) {
      more.push_back(std::string("run.") + key);
    }
    const auto with = train(config(more), measured);
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_EQ(testing::read(std::filesystem::path(with) / file),
                testing::read(std::filesystem::path(plain) / file));
    }
    for (const char* key : {"loss", "dual_norm", "eta"}) {
      EXPECT_EQ(curve(measured, key), curve(name, key));
    }
    for (const auto& [key, steps] : {std::pair<const char*, size_t>{"full_dual_norm", 2},
                                     {"probe_ratio", 5},
                                     {"probe_ratio_l2", 5}}) {
      EXPECT_EQ(curve(measured, key).size(), steps) << key;
      for (const auto& [step, value] : curve(measured, key)) EXPECT_GT(value, 0) << key;
    }
    EXPECT_TRUE(curve(name, "full_dual_norm").empty());
  }
}

TEST_F(MeasurementsTest, LayersAreThePartsOfSAndTheirNorms) {
  for (const char* method : {"unconstrained_clipped_scion", "scion"}) {
    const auto run = std::string(method);
    auto asked = config({"run.layers_every=2", "optimizer.method=" + run, "norm.hidden=sign",
                         "norm.hidden_radius=3", "norm.input=sign", "norm.input_radius=2"});
    train(asked, run);
    size_t seen = 0;
    for (const auto& line : lines(run)) {
      double sum = 0, duals = 0;
      size_t layers = 0;
      for (const auto& [name, value] : line.values) {
        if (!name.starts_with("pairing/")) continue;
        sum += std::get<double>(value);
        ++layers;
        const auto dual = line.number("dual_norm/" + name.substr(8));
        EXPECT_EQ(dual.has_value(), run == "scion");
        duals += dual.value_or(0);
      }
      if (layers == 0) continue;
      ++seen;
      EXPECT_EQ(layers, 6u);
      const double s = curve(run, "dual_norm").at(line.step);
      EXPECT_NEAR(sum, s, 1e-12 * s);
      if (run != "scion") continue;  // docs/runs.md: s is the Wolfe gap there, and no sum of them
      EXPECT_EQ(curve(run, "gap").at(line.step), s);
      EXPECT_GT(std::abs(duals - s), 1e-3 * s);
    }
    EXPECT_EQ(seen, 2u);

    // Weights after step 4, in the maximum norm times the fan-in, over the radius.
    asked.run.name = run + "-4";
    std::ostringstream screen;
    runtime::Progress progress(screen, false);
    Trainer trainer(asked, {.stop_after = 4});
    trainer.run(progress);
    const std::map<std::string, double> radii = {{"0.weight", 2}, {"1.weight", 3}};
    size_t compared = 0;
    for (const auto& parameter : trainer.model().parameters()) {
      for (const auto& [end, radius] : radii) {
        if (!parameter.name.ends_with(end)) continue;
        const double norm = parameter.tensor.abs().max().item<double>() *
                            static_cast<double>(parameter.tensor.size(1)) / radius;
        EXPECT_NEAR(curve(run, "weight_norm/" + parameter.name).at(4), norm, 1e-5 * norm);
        ++compared;
      }
      if (parameter.role != Role::Output) continue;
      const double rows = parameter.tensor.norm(2, 1).max().item<double>() *
                          std::sqrt(static_cast<double>(parameter.tensor.size(1)));
      EXPECT_NEAR(curve(run, "operator_norm/" + parameter.name).at(4), rows, 1e-5 * rows);
      ++compared;
    }
    EXPECT_EQ(compared, 3u);
  }
}

// Where a batch is the whole set and nothing is averaged, that is what the next step sees.
TEST_F(MeasurementsTest, TheFullGradientIsTheNextStepsWhereABatchIsAll) {
  train(regression({"run.gap_every=1", "optimizer.method=scion", "optimizer.lr=0.1"}), "all");
  for (const auto& [full, stepped] :
       std::map<std::string, std::string>{{"full_gap", "gap"}, {"full_loss", "loss"}}) {
    const auto measured = curve("all", full), next = curve("all", stepped);
    ASSERT_EQ(measured.size(), 5u);
    for (std::int64_t step = 1; step < 5; ++step) {
      EXPECT_NEAR(measured.at(step), next.at(step + 1), 1e-5 * next.at(step + 1)) << full;
    }
  }
  train(regression({"run.gap_every=1"}), "free");
  EXPECT_TRUE(curve("free", "full_gap").empty());
  for (std::int64_t step = 1; step < 5; ++step) {
    const double next = curve("free", "dual_norm").at(step + 1);
    EXPECT_NEAR(curve("free", "full_dual_norm").at(step), next, 1e-5 * next);
  }
}

TEST_F(MeasurementsTest, TheFullGradientIsTheMeanOfAnEpochsBatches) {
  const std::vector<std::string> still = {"optimizer.lr=0", "run.gap_every=2"};
  const auto with = [&](const char* more) {
    auto settings = still;
    settings.emplace_back(more);
    return regression(settings);
  };
  train(regression(still), "whole");
  train(with("train.batch=6"), "cut");
  auto first = with("train.batch=6");
  first.run.gap_batches = 1;
  train(first, "first");
  for (const char* key : {"full_loss", "full_dual_norm"}) {
    const double whole = curve("whole", key).at(2);
    EXPECT_NEAR(curve("cut", key).at(2), whole, 1e-5 * whole) << key;
    EXPECT_EQ(curve("cut", key).at(2), curve("cut", key).at(4));
    EXPECT_GT(std::abs(curve("first", key).at(2) - whole), 1e-3 * whole) << key;
  }
  EXPECT_NEAR(curve("first", "full_loss").at(2), curve("first", "loss").at(1), 1e-6);
}

// By autograd on the formula of the model, and the norms' own.
TEST_F(MeasurementsTest, TheProbeIsThatOfTheFormula) {
  const auto asked = regression({"run.probe_every=3"});
  train(asked, "probed");
  const auto data = open_data(asked);
  const auto batch = data->next();
  struct Point {
    torch::Tensor w, b, gw, gb;
  };
  const auto after = [&](std::int64_t steps) {
    auto config = asked;
    config.run.name = "after" + std::to_string(steps);
    std::ostringstream screen;
    runtime::Progress progress(screen, false);
    Trainer trainer(config, {.stop_after = steps});
    trainer.run(progress);
    Point point;
    for (const auto& parameter : trainer.model().parameters()) {
      (parameter.tensor.dim() == 2 ? point.w : point.b) =
          parameter.tensor.detach().to(torch::kFloat64).requires_grad_();
    }
    const auto logits = batch.inputs.flatten(1).to(torch::kFloat64).mm(point.w.t()) + point.b;
    torch::nn::functional::cross_entropy(logits, batch.targets).backward();
    point.gw = point.w.grad();
    point.gb = point.b.grad();
    return point;
  };
  const Point x = after(2), y = after(3);
  constexpr double fan_in = side * side, radius = 3, bias_radius = 0.5;
  const auto sum = [](const torch::Tensor& t) { return t.abs().sum().item<double>(); };
  const auto most = [](const torch::Tensor& t) { return t.abs().max().item<double>(); };
  const auto dual = [&](const torch::Tensor& w, const torch::Tensor& b) {
    return radius * sum(w) / fan_in + bias_radius * sum(b);
  };
  const double distance =
      std::max(most(y.w - x.w) * fan_in / radius, most(y.b - x.b) / bias_radius);
  const auto expect = [&](const char* name, double value) {
    EXPECT_NEAR(curve("probed", name).at(3), value, 2e-3 * value) << name;
  };
  expect("probe_dual_norm", dual(x.gw, x.gb));
  expect("probe_ratio", dual(y.gw - x.gw, y.gb - x.gb) / distance);
  const auto length = [](const torch::Tensor& w, const torch::Tensor& b) {
    return std::sqrt((w * w).sum().item<double>() + (b * b).sum().item<double>());
  };
  expect("probe_dual_norm_l2", length(x.gw, x.gb));
  expect("probe_ratio_l2", length(y.gw - x.gw, y.gb - x.gb) / length(y.w - x.w, y.b - x.b));
  EXPECT_EQ(curve("probed", "probe_ratio").size(), 1u);
}

TEST_F(MeasurementsTest, AResumedRunRecordsTheSame) {
  const auto asked = config({"run.layers_every=1", "run.gap_every=2", "run.probe_every=2",
                             "train.batch=8", "run.checkpoint_every=1"});
  train(asked, "whole");
  train(asked, "parts", 3);
  auto rest = asked;
  rest.run.resume = "auto";
  train(rest, "parts");
  for (const char* key : {"full_dual_norm", "probe_ratio", "pairing/layers.0.weight", "loss"}) {
    EXPECT_EQ(curve("parts", key), curve("whole", key)) << key;
  }
  EXPECT_EQ(lines("parts").size(), lines("whole").size());
}

}  // namespace
}  // namespace normball::trainer::train
