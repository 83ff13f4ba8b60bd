// What `normball bench train` measures: a whole training step, from a batch in memory to new
// weights.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/optim/training_optimizer.h"

namespace normball::benchmarks {

// The case gpt-bytes in parts, for what divides its batch.
inline constexpr std::int64_t gpt_bytes_batch = 8;
std::unique_ptr<trainer::models::Model> gpt_bytes_model();
trainer::models::Batch gpt_bytes_batch_of(std::int64_t sequences);

// The models, shapes and optimizer of benchmarks/pytorch_training.py.
class TrainingTask {
 public:
  static const std::vector<std::string_view>& cases();

  // `solver`: how polar factors are found, as in optimizer.solver.
  TrainingTask(std::string_view name, int threads, const std::string& solver);
  struct Seconds {
    double passes, optimizer;  // forward and backward; the step
  };
  Seconds run();
  // Of both passes.
  double flops() const { return flops_; }

 private:
  std::unique_ptr<trainer::models::Model> model_;
  std::unique_ptr<trainer::optim::TrainingOptimizer> optimizer_;
  std::function<trainer::models::Batch()> next_batch_;
  double flops_ = 0;
};

}  // namespace normball::benchmarks
