#include "trainer/models/gpt.h"

#include <cmath>

#include "balls.h"
#include "testing.h"
#include "trainer/models/initialization.h"
#include "trainer/models/text_generator.h"

namespace normball::trainer::models {
namespace {

using namespace ops;  // NOLINT

using testing::expect_invalid;

constexpr GptConfig kSmall = {
    .vocabulary = 50, .layers = 3, .heads = 2, .width = 32, .context = 16};

// All matrices on spheres, those that usually start at zero included.
void fill(const Model& model, std::uint64_t seed = 1) {
  Random random(seed);
  const auto layers = layers_of(model, {{"hidden", {Spectral{}, 3}}, {"output", {Sign{}, 60}}});
  initialize_on_spheres(model, layers, random, /*all=*/true);
}

torch::Tensor random_tokens(const GptConfig& config, std::int64_t batch, std::int64_t length) {
  return torch::randint(config.vocabulary, {batch, length}, torch::kInt64);
}

double difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(GptTest, PaperModelHas124MillionParameters) {
  const Gpt model{GptConfig{}};
  EXPECT_EQ(model.parameter_count(), 50304 * 768 + 12 * 12 * 768 * 768);
  EXPECT_NEAR(static_cast<double>(model.parameter_count()), 124e6, 1e6);
  EXPECT_EQ(model.parameters().front().name, "embedding");
  EXPECT_EQ(model.parameters().front().role, "output");
  EXPECT_EQ(model.parameters().back().name, "blocks.11.down");
  EXPECT_EQ(model.parameters().back().role, "hidden");
  EXPECT_DOUBLE_EQ(model.training_flops(), 6.0 * 123568128 + 6.0 * 12 * 768 * 1024);
}

TEST(GptTest, FutureTokensDoNotChangeEarlierLogits) {
  torch::manual_seed(1);
  Gpt model(kSmall);
  fill(model);
  const auto tokens = random_tokens(kSmall, 2, 16);
  const auto before = model.predict(tokens);
  for (const std::int64_t place : {1, 7, 15}) {
    auto changed = tokens.clone();
    changed.select(1, place).copy_((tokens.select(1, place) + 1) % kSmall.vocabulary);
    const auto after = model.predict(changed);
    EXPECT_EQ(difference(before.slice(1, 0, place), after.slice(1, 0, place)), 0) << place;
    EXPECT_GT(difference(before.select(1, place), after.select(1, place)), 1e-3) << place;
    EXPECT_GT(difference(before.select(1, 15), after.select(1, 15)), 1e-4) << place;
  }
}

TEST(GptTest, LogitsDependOnOrderAndNotOnTheOtherSequences) {
  torch::manual_seed(2);
  Gpt model(kSmall);
  fill(model);
  const auto tokens = random_tokens(kSmall, 3, 16);
  const auto logits = model.predict(tokens);
  EXPECT_LT(difference(model.predict(tokens.slice(0, 1, 2))[0], logits[1]), 1e-4);
  auto swapped = tokens.clone();
  swapped.select(1, 3).copy_(tokens.select(1, 4));
  swapped.select(1, 4).copy_(tokens.select(1, 3));
  EXPECT_GT(difference(model.predict(swapped).select(1, 15), logits.select(1, 15)), 1e-4);
}

TEST(GptTest, CustomaryInitializationMakesBlocksTheIdentity) {
  Gpt model(kSmall);
  Random random(3);
  model.initialize(random);
  for (const auto& parameter : model.parameters()) {
    const bool last = parameter.name.ends_with("project") || parameter.name.ends_with("down");
    EXPECT_EQ(parameter.starts_at_zero, last) << parameter.name;
    const double largest = parameter.tensor.abs().max().item<double>();
    const double bound = 1 / std::sqrt(static_cast<double>(parameter.tensor.size(1)));
    if (last) {
      EXPECT_EQ(largest, 0) << parameter.name;
    } else {
      EXPECT_LE(largest, bound) << parameter.name;
      EXPECT_GT(largest, 0.95 * bound) << parameter.name;
    }
  }
  const auto tokens = random_tokens(kSmall, 1, 10);
  const auto embedding = model.parameters().front().tensor.detach();
  const auto expected = ops::rms_norm(embedding.index_select(0, tokens[0])).matmul(embedding.t());
  EXPECT_LT(difference(model.predict(tokens)[0], expected), 1e-5);
}

TEST(GptTest, SameSeedSameWeights) {
  Gpt a(kSmall), b(kSmall), c(kSmall);
  Random first(5), again(5), other(6);
  a.initialize(first);
  b.initialize(again);
  c.initialize(other);
  for (size_t i = 0; i < a.parameters().size(); ++i) {
    EXPECT_TRUE(a.parameters()[i].tensor.equal(b.parameters()[i].tensor));
  }
  EXPECT_FALSE(a.parameters()[0].tensor.equal(c.parameters()[0].tensor));
}

TEST(GptTest, EvaluationIsTheTrainingLossWithoutGradients) {
  torch::manual_seed(3);
  Gpt model(kSmall);
  fill(model);
  const Batch batch{random_tokens(kSmall, 2, 16), random_tokens(kSmall, 2, 16)};
  const Outcome training = model.forward(batch), evaluation = model.evaluate(batch);
  EXPECT_TRUE(training.loss.requires_grad());
  EXPECT_FALSE(evaluation.loss.requires_grad());
  EXPECT_EQ(training.loss.item<float>(), evaluation.loss.item<float>());
  EXPECT_EQ(training.count, 32);
  EXPECT_FALSE(training.correct.has_value());
  const auto logits = model.predict(batch.inputs).flatten(0, 1);
  const auto chosen = logits.gather(1, batch.targets.flatten().unsqueeze(1)).squeeze(1);
  const double expected = (logits.logsumexp(1) - chosen).mean().item<double>();
  EXPECT_NEAR(evaluation.loss.item<double>(), expected, 1e-5);
}

TEST(GptTest, GradientIsTheDerivative) {
  torch::manual_seed(4);
  Gpt model(kSmall);
  fill(model);
  model.to(torch::kCPU, torch::kFloat64);
  const Batch batch{random_tokens(kSmall, 2, 16), random_tokens(kSmall, 2, 16)};
  model.forward(batch).loss.backward();
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : model.parameters()) {
    auto weight = parameter.tensor;
    const auto direction = torch::randn_like(weight);
    const double slope = (weight.grad() * direction).sum().item<double>();
    const double h = 1e-5;
    const auto loss_at = [&](double t) {
      weight.add_(direction, t);
      const double loss = model.evaluate(batch).loss.item<double>();
      weight.add_(direction, -t);
      return loss;
    };
    EXPECT_NEAR((loss_at(h) - loss_at(-h)) / (2 * h), slope, 1e-5 * (1 + std::abs(slope)))
        << parameter.name;
  }
  model.zero_grad();
  for (const auto& parameter : model.parameters()) EXPECT_FALSE(parameter.tensor.grad().defined());
}

TEST(GptTest, CacheGivesTheLogitsOfTheWholeSequence) {
  torch::manual_seed(5);
  Gpt model(kSmall);
  fill(model);
  const auto tokens = random_tokens(kSmall, 2, 16);
  const auto whole = model.predict(tokens);
  KeyValueCache cache;
  std::int64_t at = 0;
  for (const std::int64_t more : {5, 1, 1, 6, 1, 2}) {
    const auto logits = model.continue_with(tokens.slice(1, at, at + more), cache);
    at += more;
    EXPECT_LT(difference(logits, whole.select(1, at - 1)), 1e-4) << at;
  }
  EXPECT_EQ(at, 16);
  model.continue_with(tokens.slice(1, 0, 3), cache);
  EXPECT_EQ(cache.keys.front().size(1), kSmall.context);
  EXPECT_EQ(cache.position, 19);
}

TEST(GptTest, RefusesWhatItCannotDo) {
  expect_invalid([] { Gpt({.heads = 5}); }, {"[Gpt]", "width 768", "5 heads"});
  expect_invalid([] { Gpt({.layers = 0}); }, {"[Gpt]", "layers", "at least 1"});
  Gpt model(kSmall);
  expect_invalid([&] { model.predict(torch::zeros({4}, torch::kInt64)); }, {"[Gpt]", "tokens"});
  const Batch uneven{torch::zeros({2, 4}, torch::kInt64), torch::zeros({2, 3}, torch::kInt64)};
  expect_invalid([&] { model.forward(uneven); }, {"[Gpt]", "[2, 4]", "[2, 3]"});
}

std::vector<std::int64_t> generate(const Gpt& model, const SamplingOptions& options, int count) {
  const std::vector<std::int64_t> prompt = {3, 1, 4};
  TextGenerator generator(model, prompt, options);
  std::vector<std::int64_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(generator.next());
  return tokens;
}

TEST(TextGeneratorTest, SameSeedSameTextAndPastTheContext) {
  Gpt model(kSmall);
  fill(model);
  const auto text = generate(model, {.temperature = 1, .seed = 9}, 40);
  EXPECT_EQ(text, generate(model, {.temperature = 1, .seed = 9}, 40));
  EXPECT_NE(text, generate(model, {.temperature = 1, .seed = 10}, 40));
}

TEST(TextGeneratorTest, ColdOrNarrowSamplingTakesTheLikeliest) {
  Gpt model(kSmall);
  fill(model);
  const auto cold = generate(model, {.temperature = 0}, 12);
  EXPECT_EQ(cold, generate(model, {.temperature = 2, .top_k = 1, .seed = 4}, 12));
  std::vector<std::int64_t> sequence = {3, 1, 4};
  for (const std::int64_t token : cold) {
    const auto logits = model.predict(torch::tensor(sequence).unsqueeze(0));
    EXPECT_EQ(logits[0][-1].argmax().item<std::int64_t>(), token);
    sequence.push_back(token);
  }
}

TEST(TextGeneratorTest, DrawsFromTheModelsDistribution) {
  Gpt model(kSmall);
  fill(model);
  const std::vector<std::int64_t> prompt = {7};
  const double temperature = 3;
  const int draws = 3000;
  std::vector<double> count(static_cast<size_t>(kSmall.vocabulary));
  for (int seed = 0; seed < draws; ++seed) {
    TextGenerator generator(model, prompt,
                            {.temperature = temperature,
                             .top_k = 5,
                             .vocabulary = 40,
                             .seed = static_cast<std::uint64_t>(seed)});
    ++count[static_cast<size_t>(generator.next())];
  }
  const auto logits = model.predict(torch::tensor(prompt).unsqueeze(0))[0][-1].slice(0, 0, 40);
  const auto [values, ids] = logits.topk(5);
  const auto share = (values / temperature).softmax(0);
  double seen = 0;
  for (std::int64_t i = 0; i < 5; ++i) {
    const double p = share[i].item<double>();
    const double frequency = count[static_cast<size_t>(ids[i].item<std::int64_t>())] / draws;
    EXPECT_NEAR(frequency, p, 4 * std::sqrt(p * (1 - p) / draws)) << i;
    seen += frequency;
  }
  EXPECT_DOUBLE_EQ(seen, 1);
}

TEST(TextGeneratorTest, RefusesWhatItCannotDo) {
  Gpt model(kSmall);
  fill(model);
  const std::vector<std::int64_t> none, foreign = {50}, good = {1};
  const auto make = [&](const std::vector<std::int64_t>& prompt, SamplingOptions options) {
    return [&model, prompt, options] { TextGenerator(model, prompt, options); };
  };
  expect_invalid(make(none, {}), {"[TextGenerator]", "empty"});
  expect_invalid(make(foreign, {}), {"[TextGenerator]", "50"});
  expect_invalid(make(good, {.temperature = -1}), {"[TextGenerator]", "temperature", "-1"});
  expect_invalid(make(good, {.top_k = -2}), {"[TextGenerator]", "top_k", "-2"});
  expect_invalid(make(good, {.vocabulary = 51}), {"[TextGenerator]", "vocabulary", "51"});
}

TEST(Ops, RmsNormHasUnitSecondMoment) {
  torch::manual_seed(6);
  const auto x = torch::randn({4, 7, 64}) * 30;
  const auto y = ops::rms_norm(x);
  EXPECT_LT(difference(y.square().mean(-1), torch::ones({4, 7})), 1e-5);
  EXPECT_LT(difference(y * x.norm(2, -1, true) / 8, x), 1e-4);
  EXPECT_EQ(ops::rms_norm(torch::zeros({3})).abs().max().item<double>(), 0);
}

TEST(Ops, ReluSquaredKeepsTheSecondMomentsScale) {
  const auto y = ops::relu_squared(torch::tensor({-2.0, 0.0, 0.5, 3.0}));
  EXPECT_TRUE(y.equal(torch::tensor({0.0, 0.0, 0.5, 18.0})));
}

TEST(Ops, RotatedProductsDependOnDistanceOnly) {
  torch::manual_seed(7);
  const auto options = torch::TensorOptions(torch::kFloat64);
  const std::int64_t dim = 16, length = 40;
  const auto q = ops::rms_norm(torch::randn({dim}, options)),
             k = ops::rms_norm(torch::randn({dim}, options));
  const auto everywhere = [&](const torch::Tensor& x, std::int64_t first) {
    const auto rotation = ops::rotary_embedding(first, length, dim, 10000, options);
    return ops::norm_rotary(x.expand({1, length, 1, dim}), rotation).squeeze();
  };
  const auto products = everywhere(q, 0).matmul(everywhere(k, 0).t());
  const auto later = everywhere(q, 1000).matmul(everywhere(k, 1000).t());
  EXPECT_LT(difference(products, later), 1e-9);
  EXPECT_NEAR(products[0][0].item<double>(), q.dot(k).item<double>(), 1e-12);
  EXPECT_GT(difference(products[5][0], products[6][0]), 1e-3);
  EXPECT_LT(difference(everywhere(q, 3).norm(2, 1), q.norm().expand({length})), 1e-12);
}

TEST(Ops, AttentionIsTheWeightedMeanOfThePast) {
  torch::manual_seed(8);
  const auto options = torch::TensorOptions(torch::kFloat64);
  const std::int64_t keys = 9, queries = 4, heads = 2, dim = 6;
  const auto q = torch::randn({1, queries, heads, dim}, options);
  const auto k = torch::randn({1, keys, heads, dim}, options);
  const auto v = torch::randn({1, keys, heads, dim}, options);
  const auto result = ops::causal_attention(q, k, v);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < queries; ++i) {
      auto sum = torch::zeros({dim}, options);
      double total = 0;
      for (std::int64_t j = 0; j <= keys - queries + i; ++j) {
        const double score = q[0][i][h].dot(k[0][j][h]).item<double>();
        const double share = std::exp(score / std::sqrt(static_cast<double>(dim)));
        sum += share * v[0][j][h];
        total += share;
      }
      EXPECT_LT(difference(result[0][i][h], sum / total), 1e-12) << h << " " << i;
    }
  }
}

TEST(Ops, OutputCrossEntropyIsTheMeanLogProbability) {
  torch::manual_seed(9);
  const auto options = torch::TensorOptions(torch::kFloat64);
  const auto hidden = torch::randn({5, 8}, options), weight = torch::randn({11, 8}, options);
  const auto targets = torch::randint(11, {5}, torch::kInt64);
  double expected = 0;
  for (std::int64_t i = 0; i < 5; ++i) {
    const auto logits = weight.matmul(hidden[i]);
    const double chosen = logits[targets[i].item<std::int64_t>()].item<double>();
    expected += (std::log(logits.exp().sum().item<double>()) - chosen) / 5;
  }
  EXPECT_NEAR(ops::linear_cross_entropy(hidden, weight, targets).item<double>(), expected, 1e-12);
}

}  // namespace
}  // namespace normball::trainer::models
