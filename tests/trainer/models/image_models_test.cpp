#include <cmath>
#include <numbers>

#include "balls.h"
#include "testing.h"
#include "trainer/models/cnn.h"
#include "trainer/models/initialization.h"
#include "trainer/models/mlp.h"
#include "trainer/models/vit.h"

namespace normball::trainer::models {
namespace {

using testing::expect_invalid;

const Balls kBalls = {{Role::Input, {Spectral{.scale = SpectralScale::Input}, 1}},
                      {Role::Hidden, {Spectral{}, 5}},
                      {Role::Output, {Sign{}, 200}},
                      {Role::Bias, {Rms{}, 1}}};

double difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

template <class Config>
Batch random_batch(const Config& config, std::int64_t size) {
  return {torch::randn({size, config.channels, config.size, config.size}),
          torch::randint(config.classes, {size}, torch::kInt64)};
}

void fill(Cnn& model, const Batch& batch) {
  Random random(1);
  initialize_on_spheres(model, layers_of(model, kBalls), random);
  model.prepare(batch.inputs);
}

// Neighbouring pixels alike, as in pictures.
torch::Tensor smooth_images(std::int64_t count, std::int64_t channels, std::int64_t size) {
  const auto noise = torch::randn({count, channels, size + 2, size + 2});
  return torch::avg_pool2d(noise, 3, 1) * 3 + 0.5;
}

TEST(CnnTest, WhiteningMakesThePatchesCovarianceTheIdentity) {
  torch::manual_seed(1);
  const CnnConfig config = {.width = 0.1, .whiten_epsilon = 0};
  Cnn model(config);
  const auto images = smooth_images(100, 3, 32);
  model.prepare(images);
  const auto& whiten = model.buffers().front();
  EXPECT_EQ(whiten.name, "whiten");
  const auto outputs = torch::conv2d(images.to(torch::kFloat64), whiten.tensor.to(torch::kFloat64));
  const auto samples = outputs.permute({1, 0, 2, 3}).reshape({24, -1});
  const auto moments = samples.matmul(samples.t()) / static_cast<double>(samples.size(1));
  const auto identity = torch::eye(12, torch::kFloat64);
  EXPECT_LT(difference(moments.slice(0, 0, 12).slice(1, 0, 12), identity), 1e-4);
  EXPECT_LT(difference(moments.slice(0, 0, 12).slice(1, 12), -identity), 1e-4);
  const auto plain = images.to(torch::kFloat64).flatten(2).select(1, 0);
  EXPECT_GT(plain.square().mean().item<double>(), 1.2);  // they were not white before
}

TEST(CnnTest, SizesFollowTheWidthFactor) {
  const Cnn paper{CnnConfig{}};
  const std::int64_t filters =
      9 * (24 * 64 + 64 * 64 + 64 * 256 + 256 * 256 + 256 * 256 + 256 * 256);
  EXPECT_EQ(paper.parameter_count(), 24 + filters + 2 * (64 + 256 + 256) + 2560);
  const Cnn quarter{CnnConfig{.channels = 1, .size = 28, .width = 0.25}};
  EXPECT_EQ(quarter.parameters()[1].tensor.sizes(), torch::IntArrayRef({16, 8, 3, 3}));
  EXPECT_EQ(quarter.parameters().back().tensor.sizes(), torch::IntArrayRef({10, 64}));
  EXPECT_EQ(quarter.parameters().back().role, Role::Output);
  // Sides 27, 13, 6, 3; two operations a product; three passes over what is trained.
  const std::int64_t trained =
      27 * 27 * 1152 + 13 * 13 * (2304 + 9216) + (6 * 6 * 2 + 3 * 3) * 36864 + 640;
  EXPECT_EQ(quarter.training_flops(), static_cast<double>(2 * (27 * 27 * 32 + 3 * trained)));
}

TEST(CnnTest, InitializationLandsOnTheBallOfTheFlattenedNorm) {
  const Cnn model{CnnConfig{.width = 0.25}};
  const auto layers = layers_of(model, kBalls);
  Random random(2);
  initialize_on_spheres(model, layers, random);
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& parameter = model.parameters()[i];
    const Shape& shape = layers[i].shape;
    const MatrixView<float> view{parameter.tensor.data_ptr<float>(), shape.rows, shape.cols,
                                 shape.cols};
    const double expected = parameter.kind == Kind::Bias ? 0 : layers[i].radius;
    EXPECT_NEAR(norm(layers[i].norm, view, &shape), expected, 1e-3 * expected) << parameter.name;
  }
  // By hand for one: the largest singular value of (out, in·9) is r √(out/in) / 9.
  const auto filters = model.parameters()[1].tensor.detach().flatten(1);
  const double sigma = std::get<1>(torch::linalg_svd(filters))[0].item<double>();
  EXPECT_NEAR(sigma, 5 * std::sqrt(16.0 / 24) / 9, 1e-5);
}

TEST(CnnTest, CustomaryInitializationPassesTheInputOn) {
  Cnn model{CnnConfig{.width = 0.5}};
  Random random(3);
  model.initialize(random);
  const auto filters = model.parameters()[1].tensor.detach();  // 24 channels to 32
  const auto x = torch::randn({2, 24, 6, 6});
  const auto y = torch::conv2d(x, filters, {}, 1, 1);
  EXPECT_LT(difference(y.slice(1, 0, 24), x), 1e-6);
  EXPECT_GT(filters.slice(0, 24).abs().max().item<double>(), 0.9 / std::sqrt(24 * 9));
}

TEST(CnnTest, PredictionIsTheMeanOverSixViews) {
  torch::manual_seed(4);
  const CnnConfig config = {.channels = 1, .size = 28, .width = 0.1};
  Cnn model(config);
  const Batch batch = random_batch(config, 6);
  fill(model, batch);
  model.forward(batch);
  // Shifts by hand, pixel by pixel.
  const auto moved = [&](std::int64_t by) {
    auto result = torch::empty_like(batch.inputs);
    const auto source = [](std::int64_t i) { return i < 0 ? -i : i > 27 ? 54 - i : i; };
    for (std::int64_t row = 0; row < 28; ++row) {
      for (std::int64_t column = 0; column < 28; ++column) {
        result.select(2, row).select(2, column).copy_(
            batch.inputs.select(2, source(row - by)).select(2, source(column - by)));
      }
    }
    return result;
  };
  auto expected = torch::zeros({6, 10});
  for (const auto& [images, share] :
       {std::pair(batch.inputs, 0.25), {moved(1), 0.125}, {moved(-1), 0.125}}) {
    expected += share * (model.logits(images) + model.logits(images.flip(3)));
  }
  EXPECT_LT(difference(model.predict(batch.inputs), expected), 1e-4);
  EXPECT_GT(difference(model.logits(batch.inputs), expected), 1e-3);
}

TEST(CnnTest, EvaluationChangesNothing) {
  torch::manual_seed(5);
  const CnnConfig config = {.width = 0.1, .views = 1};
  Cnn model(config);
  const Batch batch = random_batch(config, 8);
  fill(model, batch);
  const auto state = [&] {
    std::vector<torch::Tensor> copies;
    for (const auto& buffer : model.buffers()) copies.push_back(buffer.tensor.clone());
    return copies;
  };
  const auto before = state();
  const Outcome first = model.evaluate(batch), second = model.evaluate(batch);
  EXPECT_EQ(first.loss.item<float>(), second.loss.item<float>());
  EXPECT_FALSE(first.loss.requires_grad());
  const auto between = state();
  model.forward(batch);
  const auto after = state();
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(before[i].equal(between[i])) << model.buffers()[i].name;
    EXPECT_EQ(before[i].equal(after[i]), i == 0) << model.buffers()[i].name;  // 0: whitening
  }
}

TEST(CnnTest, CountsWhatIsRight) {
  torch::manual_seed(6);
  const CnnConfig config = {.width = 0.1, .views = 1};
  Cnn model(config);
  Batch batch = random_batch(config, 20);
  fill(model, batch);
  batch.targets = model.logits(batch.inputs).argmax(1);
  batch.targets[0] = (batch.targets[0] + 1) % 10;
  const Outcome outcome = model.evaluate(batch);
  EXPECT_EQ(outcome.correct, 19);
  EXPECT_EQ(outcome.count, 20);
}

TEST(CnnTest, LabelSmoothingMixesWithTheUniformLoss) {
  const auto logits = torch::randn({7, 10}, torch::kFloat64);
  const auto targets = torch::randint(10, {7}, torch::kInt64);
  const double plain = classify(logits, targets, 0).loss.item<double>();
  const double uniform = -logits.log_softmax(1).mean().item<double>();
  EXPECT_NEAR(classify(logits, targets, 0.2).loss.item<double>(), 0.8 * plain + 0.2 * uniform,
              1e-12);
}

TEST(CnnTest, RefusesWhatItCannotDo) {
  expect_invalid([] { Cnn({.size = 8}); }, {"[Cnn]", "size 8", "9 pixels"});
  expect_invalid([] { Cnn({.width = 0}); }, {"[Cnn]", "width"});
  expect_invalid([] { Cnn({.views = 3}); }, {"[Cnn]", "views", "3"});
  Cnn model{CnnConfig{.width = 0.1}};
  expect_invalid([&] { model.forward(random_batch(CnnConfig{.size = 28}, 2)); },
                 {"[Cnn]", "28", "32"});
  Batch batch = random_batch(CnnConfig{}, 3);
  batch.targets = batch.targets.slice(0, 1);
  expect_invalid([&] { model.forward(batch); }, {"[Cnn]", "targets", "3 images"});
}

TEST(MlpTest, IsWhatItsFormulaSays) {
  torch::manual_seed(7);
  const MlpConfig config = {.hidden = {20, 12}};
  const auto model = std::make_unique<Mlp>(config);
  Random random(4);
  initialize_on_spheres(*model, layers_of(*model, kBalls), random);
  const Batch batch = random_batch(config, 5);
  const auto& p = model->parameters();
  auto x = batch.inputs.flatten(1).matmul(p[0].tensor.t()) + p[1].tensor;
  x = std::numbers::sqrt2 * torch::relu(x);
  x = std::numbers::sqrt2 * torch::relu(x.matmul(p[2].tensor.t()) + p[3].tensor);
  x = x.matmul(p[4].tensor.t()) + p[5].tensor;
  EXPECT_LT(difference(model->predict(batch.inputs), x), 1e-4);
  EXPECT_EQ(p[0].role, Role::Input);
  EXPECT_EQ(p[2].role, Role::Hidden);
  EXPECT_EQ(p[4].role, Role::Output);
  EXPECT_EQ(model->training_flops(), 6 * (784 * 20 + 20 * 12 + 12 * 10));
}

VitConfig small_vit() {
  return {
      .channels = 2, .size = 12, .patch = 4, .classes = 5, .layers = 3, .heads = 2, .width = 16};
}

TEST(Vit, HasThePublishedNumberOfParameters) {
  // DeiT-base has 86,567,656 parameters; RMS norm does without the 25 gains and biases.
  EXPECT_EQ(Vit({.layer_norm = true}).parameter_count(), 86567656);
  EXPECT_EQ(Vit(VitConfig{}).parameter_count(), 86567656 - 25 * 2 * 768);
}

TEST(Vit, DropLeavesBranchesOutOfSomeImagesInTrainingOnly) {
  VitConfig config = small_vit();
  config.drop = 0.5;
  Vit model(config);
  Random random(1);
  model.initialize(random);
  const Batch batch{torch::randn({64, 2, 12, 12}), torch::zeros({64}, torch::kInt64)};
  const double evaluated = model.evaluate(batch).loss.item<double>();
  const double first = model.forward(batch).loss.item<double>();
  const double second = model.forward(batch).loss.item<double>();
  EXPECT_NE(first, second);
  EXPECT_EQ(model.evaluate(batch).loss.item<double>(), evaluated);
  // Its buffers say where it is: from the same ones it goes on in the same way.
  model.buffers()[0].tensor[1] = 0;
  EXPECT_EQ(model.forward(batch).loss.item<double>(), first);
  config.drop = 0;
  Vit without(config);
  Random again(1);
  without.initialize(again);
  EXPECT_EQ(without.forward(batch).loss.item<double>(), evaluated);
}

// A part of a micro-batch loses the branches that it loses in the whole.
TEST(Vit, DropIsTheSameInAPartOfAMicroBatch) {
  VitConfig config = small_vit();
  config.drop = 0.5;
  Vit model(config);
  Random random(1);
  model.initialize(random);
  const Batch batch{torch::randn({64, 2, 12, 12}), torch::zeros({64}, torch::kInt64)};
  const auto from = [&](double passes) { model.buffers()[0].tensor[1] = passes; };
  from(3);
  const double whole = model.forward(batch).loss.item<double>();
  double parts = 0;
  for (const auto& [first, end] : {std::pair{0, 40}, {40, 64}}) {
    Batch part{batch.inputs.slice(0, first, end), batch.targets.slice(0, first, end)};
    part.shared = 64;
    part.first = first;
    from(1);
    EXPECT_TRUE(model.pass_over(2));
    parts += model.forward(part).loss.item<double>() * (end - first) / 64;
    EXPECT_EQ(model.buffers()[0].tensor[1].item<double>(), 4);
  }
  EXPECT_NEAR(parts, whole, 1e-6);
  config.drop = 0;
  EXPECT_FALSE(Vit(config).pass_over(1));
}

TEST(Vit, ShapesThatDoNotFitAreRefused) {
  VitConfig config = small_vit();
  config.patch = 5;
  expect_invalid([&] { Vit model(config); }, {"[Vit]", "12 pixels with patches of 5"});
  config = small_vit();
  config.heads = 3;
  expect_invalid([&] { Vit model(config); }, {"width 16 with 3 heads"});
  config = small_vit();
  config.drop = 1;
  expect_invalid([&] { Vit model(config); }, {"drop", "got 1"});
}

}  // namespace
}  // namespace normball::trainer::models
