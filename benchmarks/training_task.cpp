#include "benchmarks/training_task.h"

#include "benchmarks/measure.h"
#include "normball/base/error.h"
#include "normball/base/text.h"
#include "trainer/models/cnn.h"
#include "trainer/models/gpt.h"

namespace normball::benchmarks {
namespace {

using trainer::models::Batch;

struct Case {
  std::function<std::unique_ptr<trainer::models::Model>()> make;
  std::function<Batch()> next_batch;
  double hidden_radius, outer_radius;
};

constexpr std::int64_t context = 256, byte_vocabulary = 256;

std::unique_ptr<trainer::models::Model> gpt_model(std::int64_t vocabulary) {
  return std::make_unique<trainer::models::Gpt>(trainer::models::GptConfig{
      .vocabulary = vocabulary, .layers = 6, .heads = 3, .width = 384, .context = context});
}

// Token i as often as words of rank i in a text, by Zipf's law.
Batch gpt_batch(std::int64_t vocabulary, std::int64_t sequences) {
  const auto frequencies = 1 / (torch::arange(vocabulary, torch::kDouble) + 2.7);
  const auto tokens = [&] {
    return torch::multinomial(frequencies, sequences * context, true).view({sequences, context});
  };
  return {tokens(), tokens()};
}

Case gpt_case(std::int64_t vocabulary, std::int64_t sequences) {
  return {.make = [=] { return gpt_model(vocabulary); },
          .next_batch = [=] { return gpt_batch(vocabulary, sequences); },
          .hidden_radius = 10,
          .outer_radius = 1000};
}

Case cnn_case() {
  constexpr std::int64_t batch = 500;
  return {.make =
              [] {
                return std::make_unique<trainer::models::Cnn>(
                    trainer::models::CnnConfig{.width = 0.25});
              },
          .next_batch =
              [] {
                return Batch{torch::randn({batch, 3, 32, 32}),
                             torch::randint(10, {batch}, torch::kLong)};
              },
          .hidden_radius = 5,
          .outer_radius = 200};
}

Case case_named(std::string_view name) {
  if (name == "gpt-bytes") return gpt_case(byte_vocabulary, gpt_bytes_batch);
  if (name == "gpt-50304") return gpt_case(50304, 4);
  if (name == "cnn") return cnn_case();
  throw_invalid("bench train", unknown_name("case", name, TrainingTask::cases()));
}

}  // namespace

std::unique_ptr<trainer::models::Model> gpt_bytes_model() { return gpt_model(byte_vocabulary); }

trainer::models::Batch gpt_bytes_batch_of(std::int64_t sequences) {
  return gpt_batch(byte_vocabulary, sequences);
}

const std::vector<std::string_view>& TrainingTask::cases() {
  static const std::vector<std::string_view> names = {"gpt-bytes", "gpt-50304", "cnn"};
  return names;
}

TrainingTask::TrainingTask(std::string_view name, int threads, const std::string& solver) {
  const Case chosen = case_named(name);
  next_batch_ = chosen.next_batch;
  model_ = chosen.make();
  Random random(0);
  model_->initialize(random);
  const auto batch = next_batch_();
  model_->prepare(batch.inputs);
  flops_ = static_cast<double>(batch.targets.numel()) * model_->training_flops();
  trainer::config::Config config;
  config.run.threads = threads;
  config.optimizer.lr = 1e-4;
  config.optimizer.rho = 100;
  config.optimizer.solver = solver;
  config.norm.hidden_radius = chosen.hidden_radius;
  config.norm.output_radius = config.norm.embedding_radius = chosen.outer_radius;
  optimizer_ = trainer::optim::make_optimizer(config, *model_, 1000);
  constexpr int warm_up = 5;  // until the momentum averages over several batches
  for (int i = 0; i < warm_up; ++i) run();
}

TrainingTask::Seconds TrainingTask::run() {
  const Batch batch = next_batch_();
  double loss = 0;
  const double passes = time_once([&] {
    model_->zero_grad();
    const auto outcome = model_->forward(batch);
    loss = outcome.loss.item<double>();
    if (!std::isfinite(loss)) {
      throw_invalid("bench train", "the loss is not finite");
    }
    outcome.loss.backward();
  });
  return {passes, time_once([&] { optimizer_->step(loss, {}); })};
}

}  // namespace normball::benchmarks
