// NaN and infinities in gradients: a step that meets one changes nothing and names the parameter.
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>
#include <tuple>

#include "testing.h"
#include "trainer/config/config_method.h"
#include "trainer/models/cnn.h"
#include "trainer/models/gpt.h"
#include "trainer/optim/training_optimizer.h"
#include "trainer/train/model_state.h"

namespace normball::trainer::train {
namespace {

int injections() {
  const char* wanted = std::getenv("NORMBALL_INJECTIONS");
  return wanted != nullptr ? std::atoi(wanted) : 100;
}

std::unique_ptr<models::Model> small_model(const std::string& kind) {
  std::unique_ptr<models::Model> model;
  if (kind == "gpt") {
    model = std::make_unique<models::Gpt>(
        models::GptConfig{.vocabulary = 40, .layers = 2, .heads = 2, .width = 16, .context = 8});
  } else {
    model =
        std::make_unique<models::Cnn>(models::CnnConfig{.channels = 1, .size = 12, .width = 0.05});
  }
  Random random(3);
  model->initialize(random);
  return model;
}

models::Batch batch_for(const std::string& kind) {
  torch::manual_seed(5);
  if (kind == "gpt") {
    return {torch::randint(40, {2, 8}, torch::kInt64), torch::randint(40, {2, 8}, torch::kInt64)};
  }
  return {torch::randn({8, 1, 12, 12}), torch::randint(10, {8}, torch::kInt64)};
}

// A model, its optimizer, and the gradients of one batch.
struct Training {
  std::unique_ptr<models::Model> model;
  std::unique_ptr<optim::TrainingOptimizer> optimizer;
  models::Batch batch;
  std::vector<torch::Tensor> gradients;

  Training(const std::string& kind, const std::string& method)
      : model(small_model(kind)), batch(batch_for(kind)) {
    if (kind == "cnn") model->prepare(batch.inputs);
    config::Config config;
    config.optimizer.method = method;
    config.optimizer.rho = 1;
    config.optimizer.grad_clip = config::is_core_method(method) ? 0 : 1;
    optimizer = optim::make_optimizer(config, *model, /*steps=*/10);
    compute_gradients();
  }

  void compute_gradients() {
    model->zero_grad();
    model->forward(batch).loss.backward();
    gradients.clear();
    for (const auto& parameter : model->parameters()) {
      gradients.push_back(parameter.tensor.grad().clone());
    }
  }

  void restore_gradients() {
    for (size_t i = 0; i < gradients.size(); ++i) {
      model->parameters()[i].tensor.mutable_grad().copy_(gradients[i]);
    }
  }

  // Weights, buffers and the optimizer's tensors.
  std::vector<optim::NamedTensor> tensors() {
    auto all = model_state(*model);
    for (auto& tensor : optimizer->state()) all.push_back(tensor);
    return all;
  }
};

std::vector<torch::Tensor> copies_of(const std::vector<optim::NamedTensor>& tensors) {
  std::vector<torch::Tensor> copies;
  for (const auto& [name, tensor] : tensors) copies.push_back(tensor.clone());
  return copies;
}

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

void expect_same_bits(const std::vector<optim::NamedTensor>& tensors,
                      const std::vector<torch::Tensor>& expected) {
  ASSERT_EQ(tensors.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(same_bits(tensors[i].tensor, expected[i])) << tensors[i].name;
  }
}

class NonFinite : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(NonFinite, AGradientAnywhereChangesNothingAndNamesTheParameter) {
  const auto [kind, method] = GetParam();
  constexpr float values[] = {std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()};
  Training training(kind, method), undisturbed(kind, method);
  for (Training* each : {&training, &undisturbed}) {  // so that there is momentum
    ASSERT_FALSE(each->optimizer->step(1, {}).nonfinite);
    each->compute_gradients();
  }
  const auto before = copies_of(training.tensors());
  Random random(11);
  std::set<std::string> named;
  for (int i = 0; i < injections(); ++i) {
    training.restore_gradients();
    const auto& parameters = training.model->parameters();
    const auto& parameter = parameters[random.below(parameters.size())];
    auto gradient = parameter.tensor.grad();
    const auto at = random.below(static_cast<std::uint64_t>(gradient.numel()));
    gradient.data_ptr<float>()[at] = values[random.below(3)];
    const optim::StepOutcome outcome = training.optimizer->step(1, {});
    ASSERT_EQ(outcome.nonfinite.value_or("nothing"), parameter.name) << "place " << at;
    ASSERT_EQ(training.optimizer->steps_taken(), 1);
    expect_same_bits(training.tensors(), before);
    if (HasFailure()) return;
    named.insert(parameter.name);
  }
  EXPECT_GT(named.size(), training.model->parameters().size() / 2);
  // Counters inside the optimizer have not moved either: the next step is that of a run which never
  // saw such a gradient.
  training.restore_gradients();
  undisturbed.restore_gradients();
  for (Training* each : {&training, &undisturbed}) {
    ASSERT_FALSE(each->optimizer->step(1, {}).nonfinite);
    ASSERT_EQ(each->optimizer->steps_taken(), 2);
  }
  expect_same_bits(training.tensors(), copies_of(undisturbed.tensors()));
  EXPECT_FALSE(same_bits(training.tensors().front().tensor, before.front()));
}

INSTANTIATE_TEST_SUITE_P(ModelsAndMethods, NonFinite,
                         ::testing::Combine(::testing::Values("gpt", "cnn"),
                                            ::testing::Values("unconstrained_clipped_scion",
                                                              "clipped_scion", "scion", "adam",
                                                              "adamw", "sgd", "muon")),
                         [](const auto& pair) {
                           return std::string(std::get<0>(pair.param)) + "_" +
                                  std::get<1>(pair.param);
                         });

}  // namespace
}  // namespace normball::trainer::train
