// The core's optimizer on a model's tensors, in place.
#pragma once

#include "normball/optimizer.h"
#include "normball/routing.h"
#include "trainer/optim/training_optimizer.h"

namespace normball::trainer::optim {

class CoreOptimizer final : public TrainingOptimizer {
 public:
  CoreOptimizer(const Method& method, std::vector<models::ModelParameter> parameters,
                Routing routing, int threads);

  StepOutcome step() override;
  std::int64_t steps_taken() const override { return optimizer_.steps_taken(); }
  std::vector<NamedTensor> state() override;
  void set_steps_taken(std::int64_t steps) override;
  std::string explain() const override;

 private:
  std::vector<models::ModelParameter> parameters_;
  Routing routing_;
  Optimizer<float> optimizer_;
  std::vector<Parameter<float>> views_;  // of the last step, for their memory
};

// Norms and radii of the parameters: the method's own, else those of the [norm] section.
Routing route_parameters(const config::Config& config,
                         const std::vector<models::ModelParameter>& parameters);

}  // namespace normball::trainer::optim
