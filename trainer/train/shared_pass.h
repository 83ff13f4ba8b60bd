// A batch on several ranks: each passes its pieces forward and backward, then all have the gradient
// and the loss of the whole batch, and know of what was not finite in any of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/data/pieces.h"
#include "trainer/models/model.h"
#include "trainer/optim/training_optimizer.h"
#include "trainer/train/gradient_sum.h"
#include "trainer/train/team.h"

namespace normball::trainer::train {

// Of a batch, or of this rank's part of it.
struct BatchLoss {
  struct Bad {
    std::string name;         // "loss", or the parameter
    std::string where;        // for messages: "the loss of micro-batch 2 of 4"
    std::int64_t piece = -1;  // which micro-batch, of a loss
  };
  double mean = 0;         // that of the bad micro-batch, where there is one
  double reduced = 0;      // as train.loss has it: what the gradients are of
  std::int64_t units = 0;  // images or tokens
  std::optional<Bad> bad = {};
};

BatchLoss::Bad bad_loss(std::int64_t piece, std::int64_t parts);
BatchLoss::Bad bad_gradient(const std::string& parameter);

// What ranks must have in common, before anything else: program, configuration, and data as
// checkpoints know it. They may have other threads, and their data in another place.
ranks::Facts facts_to_agree_on(config::Config config,
                               const std::map<std::string, std::string>& facts);

// Which pieces of the batch a rank has. Throws where there are too few for all: of items, or, where
// the model has statistics of each micro-batch, of micro-batches.
std::vector<data::Piece> pieces_for(const Team& team, const models::Model& model,
                                    std::int64_t batch, std::int64_t micro);

class SharedPass {
 public:
  // Of `parts` micro-batches.
  SharedPass(const Team& team, models::Model& model, std::vector<data::Piece> pieces,
             std::int64_t parts, std::int64_t micro);

  // Before the first batch: each part of a gradient goes to the rank where the optimizer needs it.
  void divide_gradients(optim::TrainingOptimizer& optimizer);

  // Before the passes of each piece, in order.
  void begin_piece(size_t index, models::Batch& batch);
  // The same for a forward pass alone.
  void place_piece(size_t index, models::Batch& batch);

  // From this rank's part of the batch to the whole. The buffers were those before the batch.
  void finish(BatchLoss& loss, const std::vector<torch::Tensor>& buffers_before);

  // After that, for those who look at whole gradients.
  void bring_gradients() { gradients_.bring_all(); }

  const GradientSum& gradients() const { return gradients_; }

 private:
  void combine_statistics(const std::vector<torch::Tensor>& before) const;

  const Team& team_;
  models::Model& model_;
  std::vector<data::Piece> pieces_;
  std::int64_t parts_, micro_;
  GradientSum gradients_;
};

}  // namespace normball::trainer::train
