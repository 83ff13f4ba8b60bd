// The vision transformer, as DeiT has it and as the paper changes it: an image is cut into patches,
// a class token is put before them, learned positions are added, and the class token's place is
// classified after blocks of attention and MLP.
//
//   x ← (class token, patches · filters + bias) + positions
//   x ← x + drop(project(attention(qkv(norm(x)))))      in every block
//   x ← x + drop(down(gelu(up(norm(x)))))
//   logits ← head norm(x)[0]
//
// drop leaves a branch out, of an image and with a probability that rises linearly with depth, and
// divides what stays by the probability to stay.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/models/model.h"

namespace normball::trainer::models {

// The defaults are DeiT-base with the paper's changes: RMS norm without gain, √2 GELU.
struct VitConfig {
  std::int64_t channels = 3, size = 224, patch = 16, classes = 1000;
  std::int64_t layers = 12, heads = 12, width = 768;
  double drop = 0.1;        // of the last block
  bool layer_norm = false;  // with gain and bias (eps 1e-6), as in DeiT
  bool scaled_gelu = true;  // times √2
  double label_smoothing = 0;
};

class Vit : public Model {
 public:
  explicit Vit(const VitConfig& config);

  Outcome forward(const Batch& batch) override;
  Outcome evaluate(const Batch& batch) const override;
  torch::Tensor predict(const torch::Tensor& images) const override;
  // As timm: normal with deviation 0.02, biases 0; the patches' filters uniform in ±1/√fan-in.
  void initialize(Random& random) override;
  bool pass_over(std::int64_t micro_batches) override;
  double training_flops() const override;

  const VitConfig& config() const { return config_; }

 private:
  bool drops() const { return config_.drop > 0 && config_.layers > 1; }  // the first never does
  struct Norm {
    torch::Tensor gain, bias;  // of layer norm
  };
  struct Linear {
    torch::Tensor weight, bias;
  };
  struct Block {
    Norm before_attention, before_mlp;
    Linear qkv, project, up, down;
  };

  Norm add_norm(const std::string& name);
  Linear add_linear(const std::string& name, std::int64_t out, std::int64_t in);
  torch::Tensor normalized(const torch::Tensor& x, const Norm& norm) const;
  torch::Tensor attention(const torch::Tensor& x, const Block& block) const;
  torch::Tensor mlp(const torch::Tensor& x, const Block& block) const;
  // The share of each branch that stays; a null pointer in evaluation.
  struct Draws;
  torch::Tensor network(const torch::Tensor& images, Draws* draws) const;
  torch::Tensor dropped(const torch::Tensor& branch, double probability, Draws* draws) const;
  std::int64_t side() const { return config_.size / config_.patch; }  // in patches

  VitConfig config_;
  torch::Tensor filters_, filter_bias_, class_token_, positions_;
  std::vector<Block> blocks_;
  Norm last_norm_;
  Linear head_;
  torch::Tensor drawn_;  // a seed and how often drop was drawn: resuming goes on from there
};

}  // namespace normball::trainer::models
