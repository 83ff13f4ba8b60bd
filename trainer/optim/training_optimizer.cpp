#include "trainer/optim/training_optimizer.h"

#include "normball/base/error.h"
#include "trainer/config/config_method.h"
#include "trainer/optim/averaged_optimizer.h"
#include "trainer/optim/muon.h"
#include "trainer/optim/norm_ball_optimizer.h"
#include "trainer/optim/torch_optimizer.h"

namespace normball::trainer::optim {
namespace {

std::unique_ptr<TrainingOptimizer> make_alone(const config::Config& config,
                                              const models::Model& model, std::int64_t steps,
                                              std::shared_ptr<ranks::Ranks> ranks) {
  const auto& parameters = model.parameters();
  if (config::is_core_method(config.optimizer.method)) {
    return std::make_unique<NormBallOptimizer>(config, steps, parameters, std::move(ranks));
  }
  const Schedule lr = config::lr_schedule(config, steps);
  if (config.optimizer.method == "muon") {
    return std::make_unique<Muon>(config, lr, parameters, std::move(ranks));
  }
  return std::make_unique<TorchOptimizer>(config.optimizer, lr, parameters);
}

}  // namespace

std::unique_ptr<TrainingOptimizer> make_optimizer(const config::Config& config,
                                                  const models::Model& model, std::int64_t steps,
                                                  std::shared_ptr<ranks::Ranks> ranks) {
  Average average = parse_average(config.train.average);
  if (auto* uniform = std::get_if<Uniform>(&average)) {  // runs of other seeds draw otherwise
    uniform->seed = (uniform->seed + static_cast<std::uint64_t>(config.run.seed)) % (1ULL << 53);
  }
  if (ranks && !std::holds_alternative<NoAverage>(average)) {
    normball::throw_invalid("train", "train.average = ", to_string(average), " is not supported ",
                            "with several ranks: train in one process, or without an average");
  }
  auto optimizer = make_alone(config, model, steps, std::move(ranks));
  if (std::holds_alternative<NoAverage>(average)) return optimizer;
  return std::make_unique<AveragedOptimizer>(std::move(optimizer), average, model, steps);
}

}  // namespace normball::trainer::optim
