// Draws the next token from a language model, again and again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "normball/random.h"
#include "trainer/models/gpt.h"

namespace normball::trainer::models {

struct SamplingOptions {
  double temperature = 0.8;     // 0: always the likeliest token
  std::int64_t top_k = 0;       // only among the k likeliest; 0: among all
  std::int64_t vocabulary = 0;  // only ids below this, where the model's table is padded; 0: all
  std::uint64_t seed = 0;
};

// The same model, prompt and options give the same text. The model must outlive the generator and
// keep its weights.
class TextGenerator {
 public:
  // The prompt has at least one token; only its last `context` ones count.
  TextGenerator(const Gpt& model, std::span<const std::int64_t> prompt,
                const SamplingOptions& options);

  std::int64_t next();

 private:
  std::int64_t draw(const torch::Tensor& logits);

  const Gpt& model_;
  SamplingOptions options_;
  Random random_;
  KeyValueCache cache_;
  std::vector<std::int64_t> unread_;  // tokens the model has not seen yet
};

}  // namespace normball::trainer::models
