// A batch through the model: the gradient of its loss, and the same loss again at other weights.
#pragma once

#include <memory>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/train/data_source.h"
#include "trainer/train/shared_pass.h"
#include "trainer/train/team.h"

namespace normball::trainer::train {

class BatchPass {
 public:
  // All of these must live as long. Throws where a batch cannot be divided over the team.
  BatchPass(const config::Config& config, models::Model& model, DataSource& data, const Team& team);

  // With several ranks, once they agree: each passes its part of every batch from now on.
  void share();
  // Before the first batch of several ranks: each part of a gradient goes to the rank where the
  // optimizer needs it.
  void divide_gradients(optim::TrainingOptimizer& optimizer);
  // With train.overfit_batch: the next batch is all there is.
  void keep_next_batch();

  // The gradient of the whole batch's loss, from micro-batches that fit into memory.
  BatchLoss gradients();
  // After that, for those who look at whole gradients, in all ranks.
  void bring_gradients();
  // The same loss of the same batch at the weights as they are now, in forward passes: what these
  // change in the buffers (statistics, what stochastic depth draws by) starts as it did, and is put
  // back. Of all ranks together. Only for configurations with a line search.
  double loss_again();
  // As they were before gradients().
  void restore_buffers();

  // Seconds waited for the gradients of other ranks.
  double exposed_seconds() const;

 private:
  double weight_of(size_t piece, std::int64_t count) const;

  const config::Config& config_;
  models::Model& model_;
  DataSource& data_;
  const Team& team_;
  bool keeps_batches_;
  std::vector<data::Piece> pieces_;          // of a batch: its micro-batches, or this rank's part
  std::unique_ptr<SharedPass> shared_pass_;  // null where alone
  std::vector<models::Batch> only_batch_;    // its pieces, with train.overfit_batch
  std::vector<models::Batch> batches_;       // of this step, where the loss may be asked for again
  std::vector<torch::Tensor> buffers_before_;
};

}  // namespace normball::trainer::train
