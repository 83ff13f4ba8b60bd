// A multilayer perceptron on flattened inputs: linear layers with biases and √2 ReLU between, which
// keeps the second moment of a standard normal.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/models/model.h"

namespace normball::trainer::models {

struct MlpConfig {
  std::int64_t channels = 1;
  std::int64_t size = 28;  // pixels a side
  std::vector<std::int64_t> hidden = {256, 256};
  std::int64_t classes = 10;
  double label_smoothing = 0;

  friend bool operator==(const MlpConfig&, const MlpConfig&) = default;
};

class Mlp : public Model {
 public:
  explicit Mlp(const MlpConfig& config);

  Outcome forward(const Batch& batch) override;
  Outcome evaluate(const Batch& batch) const override;
  torch::Tensor predict(const torch::Tensor& images) const override;
  void initialize(Random& random) override;  // uniform in ±1/√fan-in, biases 0
  double training_flops() const override;

 private:
  struct Linear {
    torch::Tensor weight, bias;
  };

  torch::Tensor network(const torch::Tensor& images) const;

  MlpConfig config_;
  std::vector<Linear> layers_;
};

}  // namespace normball::trainer::models
