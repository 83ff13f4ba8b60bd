#include "trainer/optim/averaged_optimizer.h"

#include "normball/base/error.h"

namespace normball::trainer::optim {
namespace {

constexpr std::int64_t half = std::int64_t{1} << 24;  // whole numbers up to here are exact in float

torch::Tensor length_tensor(std::int64_t steps) {
  return torch::tensor({static_cast<float>(steps / half), static_cast<float>(steps % half)});
}

std::int64_t length_of(const torch::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor[0].item<float>()) * half +
         static_cast<std::int64_t>(tensor[1].item<float>());
}

std::vector<NamedTensor> averaged_tensors(const Average& average, const models::Model& model) {
  std::vector<NamedTensor> all;
  for (const auto& parameter : model.parameters())
    all.push_back({parameter.name, parameter.tensor});
  const bool with_buffers =
      !std::holds_alternative<ScheduleFree>(average) && !std::holds_alternative<Soda>(average);
  for (const auto& buffer : model.buffers()) {
    if (std::holds_alternative<ScheduleFree>(average)) {
      normball::throw_invalid("train", "train.average = ", to_string(average), " needs a model ",
                              "without statistics of its own: '", buffer.name,
                              "' would be that of ",
                              "other weights than the evaluated ones; use ema or tail");
    }
    if (with_buffers) all.push_back({buffer.name, buffer.tensor});
  }
  return all;
}

std::vector<Index> sizes_of(const std::vector<NamedTensor>& tensors) {
  std::vector<Index> sizes;
  for (const auto& [name, tensor] : tensors) sizes.push_back(tensor.numel());
  return sizes;
}

}  // namespace

AveragedOptimizer::AveragedOptimizer(std::unique_ptr<TrainingOptimizer> inner, Average average,
                                     const models::Model& model, std::int64_t steps)
    : inner_(std::move(inner)),
      averaged_(average, sizes_of(averaged_tensors(average, model)), steps),
      steps_(steps),
      length_(length_tensor(steps)) {
  for (auto& [name, tensor] : averaged_tensors(average, model)) {
    if (!tensor.is_contiguous() || tensor.scalar_type() != torch::kFloat32) {
      normball::throw_invalid("train", "train.average needs contiguous float32 tensors; '", name,
                              "' is not");
    }
    views_.emplace_back(tensor.data_ptr<float>(), 1, tensor.numel());
    names_.push_back(name);
    tensors_.push_back(tensor);  // keeps the memory
  }
}

StepOutcome AveragedOptimizer::step(double loss, const LossAgain& again) {
  averaged_.begin_step(views_);
  StepOutcome outcome;
  try {
    outcome = inner_->step(loss, again);
  } catch (...) {
    averaged_.cancel_step(views_);
    throw;
  }
  outcome.nonfinite ? averaged_.cancel_step(views_) : averaged_.end_step(views_);
  return outcome;
}

std::vector<NamedTensor> AveragedOptimizer::state() {
  std::vector<NamedTensor> all = inner_->state();
  for (const auto& buffer : averaged_.state()) {
    const size_t dot = buffer.name.find('.');
    const auto layer = static_cast<size_t>(std::stoll(buffer.name.substr(dot + 1)));
    all.push_back({buffer.name.substr(0, dot + 1) + names_[layer],
                   torch::from_blob(buffer.values.data(), tensors_[layer].sizes())});
  }
  all.push_back({"average_length", length_});
  return all;
}

// Checkpoints have the evaluated weights as the model's, and the iterate in their place.
void AveragedOptimizer::set_steps_taken(std::int64_t steps) {
  const std::int64_t stored = length_of(length_);
  length_.copy_(length_tensor(steps_));
  if (std::holds_alternative<Tail>(averaged_.average()) && stored != steps_) {
    normball::throw_invalid("train", "train.average = ", to_string(averaged_.average()),
                            " is of the last part of ", stored,
                            " steps in the checkpoint, and the run now has ", steps_,
                            ": keep run.steps (run.epochs)");
  }
  inner_->set_steps_taken(steps);
  averaged_.set_steps_taken(steps, true);
  if (averaged_.exchanged()) averaged_.exchange(views_);
}

std::string AveragedOptimizer::explain() {
  return inner_->explain() + "average    " + to_string(averaged_.average()) + '\n';
}

}  // namespace normball::trainer::optim
