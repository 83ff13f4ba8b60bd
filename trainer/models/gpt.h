// NanoGPT as in the paper: a decoder-only transformer with rotary embeddings, RMS norm without
// gain, RMS norm on queries and keys, 2 ReLU², no biases, one matrix for embedding and output.
//
//   x ← embedding[tokens]
//   x ← x + project(attention(rms_norm(x)))      in every block
//   x ← x + down(2 relu(up(rms_norm(x)))²)
//   logits ← embedding rms_norm(x)
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/models/model.h"
#include "trainer/ops/ops.h"

namespace normball::trainer::models {

// The defaults are the paper's 124M model: 50257 GPT-2 tokens, rounded up; heads of 128.
struct GptConfig {
  std::int64_t vocabulary = 50304;
  std::int64_t layers = 12;
  std::int64_t heads = 6;
  std::int64_t width = 768;
  std::int64_t context = 1024;  // tokens a sequence
  double rotary_base = 10000;

  friend bool operator==(const GptConfig&, const GptConfig&) = default;
};

// Keys and values of the tokens seen so far, for generation.
struct KeyValueCache {
  std::vector<torch::Tensor> keys, values;  // for each block, (B, T, heads, dim)
  std::int64_t position = 0;                // of the next token
};

class Gpt : public Model {
 public:
  explicit Gpt(const GptConfig& config);

  Outcome forward(const Batch& batch) override;
  Outcome evaluate(const Batch& batch) const override;
  torch::Tensor predict(const torch::Tensor& tokens) const override;  // (B, T, vocabulary)
  // Uniform in ±1/√fan-in; the last matrix of each branch at 0, so that a block starts as identity.
  void initialize(Random& random) override;
  double training_flops() const override;

  // Logits (B, vocabulary) after the last of some more tokens (B, T). The cache keeps at most
  // `context` of them: after that the window slides.
  torch::Tensor continue_with(const torch::Tensor& tokens, KeyValueCache& cache) const;

  const GptConfig& config() const { return config_; }

 private:
  struct Block {
    torch::Tensor query, key, value, project;  // attention
    torch::Tensor up, down;                    // MLP
  };

  torch::Tensor hidden(const torch::Tensor& tokens, KeyValueCache* cache) const;
  torch::Tensor attention(size_t block, const torch::Tensor& x, const ops::Rotation& rotation,
                          KeyValueCache* cache) const;
  torch::Tensor loss(const Batch& batch) const;

  GptConfig config_;
  torch::Tensor embedding_;
  std::vector<Block> blocks_;
};

}  // namespace normball::trainer::models
