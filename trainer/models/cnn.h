// The convolutional network of airbench, for square images of 9 pixels or more:
//
//   frozen 2x2 whitening with a bias, GELU
//   three groups of: 3x3 conv, 2x2 max-pool, batch norm, GELU, 3x3 conv, batch norm, GELU
//   maximum over what is left, output matrix, times output_scale
//
// Batch norm has a bias and no gain.
#pragma once

#include <array>
#include <cstdint>

#include "trainer/models/model.h"

namespace normball::trainer::models {

struct CnnConfig {
  std::int64_t channels = 3;
  std::int64_t size = 32;  // pixels a side
  std::int64_t classes = 10;
  double width = 1;  // the groups have width · (64, 256, 256) channels
  double output_scale = 1.0 / 9;
  double label_smoothing = 0.2;
  double norm_momentum = 0.6;  // of the running statistics, kept at each step
  double norm_epsilon = 1e-12;
  double whiten_epsilon = 5e-4;  // added to the variances of the patches
  int views = 6;  // in evaluation: 1, 2 (mirrored) or 6 (mirrored, shifted by a pixel)

  friend bool operator==(const CnnConfig&, const CnnConfig&) = default;
};

class Cnn : public Model {
 public:
  explicit Cnn(const CnnConfig& config);

  Outcome forward(const Batch& batch) override;
  Outcome evaluate(const Batch& batch) const override;
  torch::Tensor predict(const torch::Tensor& images) const override;  // the mean over the views
  // Filters pass the input on as far as it has channels, the others are uniform in ±1/√fan-in.
  void initialize(Random& random) override;
  // Whitens: filters so that their outputs on patches of these images have covariance 1, and their
  // negatives.
  void prepare(const torch::Tensor& images) override;
  std::optional<double> statistics_decay() const override { return config_.norm_momentum; }
  double training_flops() const override;

  // Logits of the images as they are, on running statistics.
  torch::Tensor logits(const torch::Tensor& images) const;
  const CnnConfig& config() const { return config_; }

 private:
  struct Half {  // conv and batch norm
    torch::Tensor filters, bias, mean, variance;
  };
  using Group = std::array<Half, 2>;

  torch::Tensor network(const torch::Tensor& images, bool training) const;
  torch::Tensor normalize(const torch::Tensor& x, const Half& half, bool training) const;

  CnnConfig config_;
  torch::Tensor whiten_, whiten_bias_;
  std::array<Group, 3> groups_;
  torch::Tensor head_;
};

}  // namespace normball::trainer::models
