#include "trainer/train/training_optimizer.h"

#include <cmath>

#include "trainer/train/core_optimizer.h"
#include "trainer/train/muon.h"
#include "trainer/train/torch_optimizer.h"

namespace normball::trainer {
namespace {

Schedule schedule_of(const run::Config& config, std::int64_t steps) {
  const auto share = [steps](double part) {
    return static_cast<std::int64_t>(std::llround(part * static_cast<double>(steps)));
  };
  const auto& schedule = config.schedule;
  const std::int64_t warmup = share(schedule.warmup);
  Decay decay = Constant{};
  if (schedule.kind == "linear") decay = LinearDecay{steps};
  if (schedule.kind == "warmdown") {
    decay = Warmdown{steps, std::max<std::int64_t>(1, share(schedule.decay))};
  }
  if (schedule.kind == "cosine") decay = Cosine{steps, schedule.end};
  return {config.optimizer.lr, decay, warmup};
}

}  // namespace

std::unique_ptr<TrainingOptimizer> make_optimizer(const run::Config& config, const Model& model,
                                                  std::int64_t steps) {
  const auto& from = config.optimizer;
  const Schedule lr = schedule_of(config, steps);
  if (from.method == "muon") return std::make_unique<Muon>(config, lr, model.parameters());
  if (from.method == "adam" || from.method == "adamw" || from.method == "sgd") {
    return std::make_unique<TorchOptimizer>(from, lr, model.parameters());
  }
  const Method method = make_method(from.method, {.lr = lr,
                                                  .alpha = from.alpha,
                                                  .rho = from.rho,
                                                  .beta = from.beta,
                                                  .l0 = from.l0,
                                                  .l1 = from.l1,
                                                  .short_step = parse_short_step(from.short_step)});
  return std::make_unique<CoreOptimizer>(method, model.parameters(),
                                         route_parameters(config, model.parameters()),
                                         static_cast<int>(config.run.threads));
}

}  // namespace normball::trainer
