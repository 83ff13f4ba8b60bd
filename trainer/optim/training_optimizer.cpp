#include "trainer/optim/training_optimizer.h"

#include "trainer/config/config_method.h"
#include "trainer/optim/core_optimizer.h"
#include "trainer/optim/muon.h"
#include "trainer/optim/torch_optimizer.h"

namespace normball::trainer::optim {
std::unique_ptr<TrainingOptimizer> make_optimizer(const config::Config& config,
                                                  const models::Model& model, std::int64_t steps) {
  const auto& parameters = model.parameters();
  if (config::is_core_method(config.optimizer.method)) {
    return std::make_unique<CoreOptimizer>(config::core_method(config, steps), parameters,
                                           route_parameters(config, parameters),
                                           static_cast<int>(config.run.threads));
  }
  const Schedule lr = config::lr_schedule(config, steps);
  if (config.optimizer.method == "muon") return std::make_unique<Muon>(config, lr, parameters);
  return std::make_unique<TorchOptimizer>(config.optimizer, lr, parameters);
}

}  // namespace normball::trainer::optim
