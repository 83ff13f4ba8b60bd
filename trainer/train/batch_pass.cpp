#include "trainer/train/batch_pass.h"

#include <cmath>

#include "trainer/config/config_method.h"

namespace normball::trainer::train {
namespace {

models::Batch copy_of(const models::Batch& batch) {
  return {batch.inputs.clone(), batch.targets.clone(), batch.shared, batch.first};
}

}  // namespace

BatchPass::BatchPass(const config::Config& config, models::Model& model, DataSource& data,
                     const Team& team)
    : config_(config),
      model_(model),
      data_(data),
      team_(team),
      keeps_batches_(config::line_search_of(config).has_value()),
      pieces_(pieces_for(team, model, config.train.batch, config.train.micro())) {}

void BatchPass::share() {
  data_.divide(pieces_);
  const std::int64_t micro = config_.train.micro();
  shared_pass_ =
      std::make_unique<SharedPass>(team_, model_, pieces_, config_.train.batch / micro, micro);
}

void BatchPass::divide_gradients(optim::TrainingOptimizer& optimizer) {
  if (shared_pass_) shared_pass_->divide_gradients(optimizer);
}

void BatchPass::bring_gradients() {
  if (shared_pass_) shared_pass_->bring_gradients();
}

void BatchPass::keep_next_batch() {
  for (size_t i = 0; i < pieces_.size(); ++i) only_batch_.push_back(copy_of(data_.next()));
}

// What a piece's mean loss counts for in the loss whose gradient is taken.
double BatchPass::weight_of(size_t piece, std::int64_t count) const {
  if (config_.train.loss == "sum") return static_cast<double>(count);
  return 1 /
         (static_cast<double>(config_.train.batch) / static_cast<double>(pieces_[piece].items()));
}

BatchLoss BatchPass::gradients() {
  model_.zero_grad();
  buffers_before_.clear();
  for (const auto& buffer : model_.buffers()) buffers_before_.push_back(buffer.tensor.clone());
  batches_.clear();
  BatchLoss result;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    models::Batch batch = only_batch_.empty() ? data_.next() : only_batch_[i];
    if (shared_pass_) shared_pass_->begin_piece(i, batch);
    if (keeps_batches_) batches_.push_back(only_batch_.empty() ? copy_of(batch) : batch);
    const models::Outcome outcome = model_.forward(batch);
    const double loss = outcome.loss.item<double>();
    result.units += outcome.count;
    if (!std::isfinite(loss)) {
      result.mean = std::isnan(loss) ? std::nan("") : loss;  // without a sign
      result.bad = bad_loss(pieces_[i].part, config_.train.accumulation());
      break;
    }
    const double parts =
        static_cast<double>(config_.train.batch) / static_cast<double>(pieces_[i].items());
    result.mean += loss / parts;
    const double weight = weight_of(i, outcome.count);
    result.reduced += loss * weight;
    (outcome.loss * weight).backward();
  }
  if (shared_pass_) shared_pass_->finish(result, buffers_before_);
  return result;
}

double BatchPass::loss_again() {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> after;
  for (const auto& buffer : model_.buffers()) after.push_back(buffer.tensor.clone());
  restore_buffers();
  double own = 0;
  for (size_t i = 0; i < batches_.size(); ++i) {
    if (shared_pass_) shared_pass_->place_piece(i, batches_[i]);
    const models::Outcome outcome = model_.forward(batches_[i]);
    own += outcome.loss.item<double>() * weight_of(i, outcome.count);
  }
  for (size_t i = 0; i < after.size(); ++i) model_.buffers()[i].tensor.copy_(after[i]);
  double all = 0;
  for (const double part : team_.gather(own)) all += part;
  return all;
}

void BatchPass::restore_buffers() {
  for (size_t i = 0; i < buffers_before_.size(); ++i) {
    model_.buffers()[i].tensor.copy_(buffers_before_[i]);
  }
}

double BatchPass::exposed_seconds() const {
  return shared_pass_ ? shared_pass_->gradients().exposed_seconds() : 0;
}

}  // namespace normball::trainer::train
