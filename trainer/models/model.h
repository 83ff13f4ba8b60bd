// What every model of the trainer offers to the loop:
//
//   auto model = std::make_unique<Gpt>(config);
//   model->initialize(random);              // or initialize_on_spheres()
//   model->prepare(some training inputs);   // whitening; most models need nothing
//   ...
//   Outcome outcome = model->forward(batch);
//   outcome.loss.backward();
//   ...
//   Outcome test = model->evaluate(batch);  // no gradients, nothing of the model changes
//
// Parameters are plain tensors with stable names; there is no training mode to forget.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "normball/random.h"
#include "normball/routing.h"

namespace normball::trainer::models {

// Images: inputs (B, C, H, W) floating point, targets (B), or (B, classes) where images are mixed:
// the share of each class, floating point. Tokens: both (B, T). Other targets are int64.
struct Batch {
  torch::Tensor inputs;
  torch::Tensor targets;
  // Of a micro-batch that several ranks share: how many items it has, and which is the first here.
  std::int64_t shared = 0, first = 0;
};

struct Outcome {
  torch::Tensor loss;                        // mean over the targets, a scalar
  std::int64_t count = 0;                    // how many targets that is
  std::optional<std::int64_t> correct = {};  // how many of them came out on top; images only
  std::optional<std::int64_t> in_top5 = {};  // or among the first five, with more than ten classes
};

struct ModelParameter {
  std::string name;  // "blocks.0.query": the key in checkpoints
  Kind kind = Kind::Unknown;
  Role role = Role::Hidden;
  torch::Tensor tensor;
  bool starts_at_zero = false;  // the last matrix of a residual branch, biases
};

// Not trained, but part of the model's state: running statistics, whitening filters.
struct ModelBuffer {
  std::string name;
  torch::Tensor tensor;
};

class Model {
 public:
  Model() = default;
  Model(const Model&) = delete;  // the members of a model and its list of parameters share tensors
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;

  // One pass in training; running statistics move.
  virtual Outcome forward(const Batch& batch) = 0;

  // The same loss without gradients and on running statistics, of all views where the model has
  // several.
  virtual Outcome evaluate(const Batch& batch) const = 0;

  // Logits as in evaluate().
  virtual torch::Tensor predict(const torch::Tensor& inputs) const = 0;

  // The model's customary initialization. The same seed gives the same weights on any machine.
  virtual void initialize(Random& random) = 0;

  // Sets what depends on the data, from training inputs, before the first step.
  virtual void prepare(const torch::Tensor& /*inputs*/) {}

  // For a model whose pass depends on the batch as a whole (batch statistics), so that no batch may
  // be cut: how much of its running statistics a pass keeps, b <- decay b + (1 - decay) x.
  virtual std::optional<double> statistics_decay() const { return std::nullopt; }
  // Several ranks: each passes its own pieces of the batch, and says so of the micro-batches
  // between them. For a model that counts its passes; true for one that does.
  virtual bool pass_over(std::int64_t /*micro_batches*/) { return false; }

  // Floating-point operations of one pass in training and its backward pass, for each image or
  // token.
  virtual double training_flops() const = 0;

  const std::vector<ModelParameter>& parameters() const { return parameters_; }
  const std::vector<ModelBuffer>& buffers() const { return buffers_; }
  std::int64_t parameter_count() const;
  void zero_grad();

  // Moves parameters and buffers, in place.
  void to(torch::Device device, torch::Dtype dtype = torch::kFloat32);

 protected:
  torch::Tensor add_parameter(std::string name, torch::IntArrayRef shape, Kind kind, Role role,
                              bool starts_at_zero = false);
  torch::Tensor add_buffer(std::string name, torch::Tensor initial);

 private:
  std::vector<ModelParameter> parameters_;
  std::vector<ModelBuffer> buffers_;
};

// Throws, in the name of `where`, unless the batch is images of the given size with one target
// each.
void require_images(std::string_view where, const Batch& batch, torch::IntArrayRef image);

// The mean cross-entropy of logits (B, classes), and how many are right: of mixed images the class
// with the largest share counts as right.
Outcome classify(const torch::Tensor& logits, const torch::Tensor& targets, double label_smoothing);

}  // namespace normball::trainer::models
