// The optimizers of a run behind one interface: every method of the core, and the baselines Adam,
// AdamW, SGD (LibTorch's) and Muon (a composition).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/models/model.h"

namespace normball::ranks {
class Ranks;
}

namespace normball::optim {
class NormBall;
}

namespace normball::trainer::optim {

// What a step did, for the log.
struct StepOutcome {
  double lr = 0;
  std::optional<double> pairing = {};  // s; for an unconstrained method the dual norm
  std::optional<double> eta = {};
  std::optional<bool> clipped = {};
  std::optional<double> gap = {};                // where constrained
  std::optional<double> length = {};             // γη, where a stepsize was chosen that finds it
  std::optional<double> rho = {};                // that it found to clip at; none at the first step
  std::optional<double> alpha = {};              // of a schedule; so is rho
  std::optional<std::int64_t> evaluations = {};  // of the loss, by a line search
  std::optional<std::string> nonfinite = {};     // the first parameter with a bad gradient: no step
};

// In StepOutcome::nonfinite, where the gradient is finite: the loss after a trial step was not.
constexpr std::string_view trial_step = "trial step";

// The loss of the same batch at the weights as they are then, of all ranks together.
using LossAgain = std::function<double()>;

// In float32 or float64, contiguous, on the CPU.
struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};

class TrainingOptimizer {
 public:
  virtual ~TrainingOptimizer() = default;

  // From the gradients of the model's parameters; `loss` is what they are the gradients of, at the
  // same weights, of all ranks together. Where a gradient is not finite nothing changes. What they
  // hold afterwards is of no use. A line search asks `again`, others do not.
  virtual StepOutcome step(double loss, const LossAgain& again) = 0;
  // Steps taken, without those refused.
  virtual std::int64_t steps_taken() const = 0;

  // All that a resumed run needs beside the weights, in place; the same names from the start on.
  // With ranks, called by all together.
  virtual std::vector<NamedTensor> state() = 0;
  // After the tensors of state() were overwritten.
  virtual void set_steps_taken(std::int64_t steps) = 0;

  // Whether the weights to evaluate and keep are others than those of the steps: an average.
  virtual bool has_average() const { return false; }
  // Puts them in the weights' place, and back again the next time. Checkpoints are saved so, and
  // set_steps_taken() undoes it.
  virtual void exchange() {}

  // Of ranks: how many elements of a gradient each needs, in their order; empty where all need all.
  virtual std::vector<std::int64_t> gradient_parts(const torch::Tensor& /*parameter*/) {
    return {};
  }

  // What takes the steps of a method of the core; null for all others.
  virtual normball::optim::NormBall* norm_ball() { return nullptr; }

  // Which parameter is treated how, as a table.
  virtual std::string explain() = 0;
};

// For a run of `steps` steps in all, on which schedules depend. Ranks take every step together, on
// the same gradients; the methods of the core share its work.
std::unique_ptr<TrainingOptimizer> make_optimizer(const config::Config& config,
                                                  const models::Model& model, std::int64_t steps,
                                                  std::shared_ptr<ranks::Ranks> ranks = nullptr);

// The evaluated weights in place, for as long as this lives.
class EvaluatedWeights {
 public:
  explicit EvaluatedWeights(TrainingOptimizer& optimizer) : optimizer_(optimizer) {
    optimizer_.exchange();
  }
  ~EvaluatedWeights() { optimizer_.exchange(); }
  EvaluatedWeights(const EvaluatedWeights&) = delete;
  EvaluatedWeights& operator=(const EvaluatedWeights&) = delete;

 private:
  TrainingOptimizer& optimizer_;
};

}  // namespace normball::trainer::optim
