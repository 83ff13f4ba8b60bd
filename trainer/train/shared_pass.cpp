#include "trainer/train/shared_pass.h"

#include <algorithm>
#include <cmath>

#include "normball/base/error.h"
#include "normball/normball_c.h"

namespace normball::trainer::train {
namespace {

// What a rank has to tell of its part.
struct Part {
  double mean = 0, reduced = 0;
  std::int64_t units = 0;
  std::int64_t bad_piece = -1;      // the micro-batch
  std::int64_t bad_parameter = -1;  // its number
};

}  // namespace

BatchLoss::Bad bad_loss(std::int64_t piece, std::int64_t parts) {
  return {.name = "loss",
          .where = "the loss of micro-batch " + std::to_string(piece + 1) + " of " +
                   std::to_string(parts),
          .piece = piece};
}

BatchLoss::Bad bad_gradient(const std::string& parameter) {
  return {.name = parameter, .where = "the gradient of '" + parameter + "'"};
}

ranks::Facts facts_to_agree_on(config::Config config,
                               const std::map<std::string, std::string>& facts) {
  config.run.threads = 0;
  config.run.dir = config.data.path = config.data.validation = config.data.bpe = "";
  return {{"program", std::string("normball ") + normball_version()},
          {"configuration", config::to_toml(config)},
          {"training data", facts.at("training_data")},
          {"validation data", facts.at("validation_data")}};
}

std::vector<data::Piece> pieces_for(const Team& team, const models::Model& model,
                                    std::int64_t batch, std::int64_t micro) {
  const bool whole = model.statistics_decay().has_value();
  const std::int64_t parts = batch / micro;
  if (whole && parts < team.size()) {
    throw_invalid("train", "batch statistics need whole micro-batches, and a batch has ", parts,
                  " of them for ", team.size(), " ranks: set train.micro_batch ", "to ",
                  std::max<std::int64_t>(1, batch / team.size()), " or less");
  }
  if (batch < team.size()) {
    throw_invalid("train", "train.batch = ", batch, " cannot be divided over ", team.size(),
                  " ranks; each needs at least one item");
  }
  return data::pieces_of(parts, micro, team.rank(), team.size(), whole);
}

SharedPass::SharedPass(const Team& team, models::Model& model, std::vector<data::Piece> pieces,
                       std::int64_t parts, std::int64_t micro)
    : team_(team),
      model_(model),
      pieces_(std::move(pieces)),
      parts_(parts),
      micro_(micro),
      gradients_(team, model.parameters()) {}

void SharedPass::divide_gradients(optim::TrainingOptimizer& optimizer) {
  std::vector<std::vector<std::int64_t>> parts;
  for (const auto& parameter : model_.parameters()) {
    parts.push_back(optimizer.gradient_parts(parameter.tensor));
  }
  gradients_.divide(std::move(parts));
}

void SharedPass::begin_piece(size_t index, models::Batch& batch) {
  place_piece(index, batch);
  if (index + 1 == pieces_.size()) gradients_.expect_last_pass();
}

void SharedPass::place_piece(size_t index, models::Batch& batch) {
  batch.shared = micro_;
  batch.first = pieces_[index].first;
  model_.pass_over(index == 0 ? pieces_[0].part
                              : pieces_[index].part - pieces_[index - 1].part - 1);
}

void SharedPass::finish(BatchLoss& loss, const std::vector<torch::Tensor>& buffers_before) {
  const auto bad_parameter = gradients_.finish();
  const bool counts = model_.pass_over(parts_ - 1 - pieces_.back().part);
  if (!counts) combine_statistics(buffers_before);
  Part own{.mean = loss.mean, .reduced = loss.reduced, .units = loss.units};
  if (loss.bad) {
    own.bad_piece = loss.bad->piece;
  } else if (bad_parameter) {
    own.bad_parameter = static_cast<std::int64_t>(*bad_parameter);
  }
  const auto all = team_.gather(own);
  loss = {};
  for (const Part& part : all) {
    loss.mean += part.mean;
    loss.reduced += part.reduced;
    loss.units += part.units;
  }
  const auto bad = std::ranges::find_if(
      all, [](const Part& part) { return part.bad_piece >= 0 || part.bad_parameter >= 0; });
  if (bad == all.end()) return;
  if (bad->bad_piece >= 0) {
    loss.mean = bad->mean;
    loss.bad = bad_loss(bad->bad_piece, parts_);
  } else {
    loss.bad = bad_gradient(model_.parameters()[static_cast<size_t>(bad->bad_parameter)].name);
  }
  loss.bad->where += " in rank " + std::to_string(bad - all.begin());
}

// A pass over micro-batch i is b <- c b + (1 - c) x_i. Those of a rank follow one another, so after
// all of them b is b_0 + sum over ranks of c^(passes after the rank's) (b_rank - b_0), and a buffer
// that no pass changes stays as it is.
void SharedPass::combine_statistics(const std::vector<torch::Tensor>& before) const {
  const torch::NoGradGuard no_grad;
  const auto& buffers = model_.buffers();
  const auto decay = model_.statistics_decay();
  if (!decay) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (torch::equal(buffers[i].tensor, before[i])) continue;
      throw std::logic_error(error_message("train", "the model's passes change '", buffers[i].name,
                                           "', but it does not say how several ranks' changes "
                                           "combine (Model::statistics_decay())"));
    }
    return;
  }
  if (buffers.empty()) return;
  const double factor = std::pow(*decay, static_cast<double>(parts_ - 1 - pieces_.back().part));
  std::vector<torch::Tensor> changes;
  for (size_t i = 0; i < buffers.size(); ++i) {
    changes.push_back(((buffers[i].tensor - before[i]) * factor).flatten());
  }
  const auto sum = torch::cat(changes);
  team_.sum(sum);
  std::int64_t offset = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const auto own = sum.narrow(0, offset, before[i].numel()).view(before[i].sizes());
    buffers[i].tensor.copy_(before[i] + own);
    offset += before[i].numel();
  }
}

}  // namespace normball::trainer::train
