#include "trainer/models/model.h"

#include <utility>

#include "normball/base/error.h"

namespace normball::trainer::models {

std::int64_t Model::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& parameter : parameters_) count += parameter.tensor.numel();
  return count;
}

void Model::zero_grad() {
  for (auto& parameter : parameters_) parameter.tensor.mutable_grad() = torch::Tensor();
}

void Model::to(torch::Device device, torch::Dtype dtype) {
  const auto move = [&](torch::Tensor& tensor) { tensor.set_data(tensor.to(device, dtype)); };
  for (auto& parameter : parameters_) move(parameter.tensor);
  for (auto& buffer : buffers_) move(buffer.tensor);
}

torch::Tensor Model::add_parameter(std::string name, torch::IntArrayRef shape, Kind kind, Role role,
                                   bool starts_at_zero) {
  const auto tensor = torch::zeros(shape, torch::requires_grad());
  parameters_.push_back({.name = std::move(name),
                         .kind = kind,
                         .role = role,
                         .tensor = tensor,
                         .starts_at_zero = starts_at_zero});
  return tensor;
}

torch::Tensor Model::add_buffer(std::string name, torch::Tensor initial) {
  buffers_.push_back({.name = std::move(name), .tensor = initial});
  return initial;
}

void require_images(std::string_view where, const Batch& batch, torch::IntArrayRef image) {
  const auto& inputs = batch.inputs;
  if (inputs.dim() != 4 || inputs.size(0) == 0 || inputs.sizes().slice(1) != image) {
    throw_invalid(where, "inputs are ", inputs.sizes(), "; the model takes (batch, ", image, ")");
  }
  const auto& targets = batch.targets;
  const bool numbers = targets.dim() == 1,
             shares = targets.dim() == 2 && targets.is_floating_point();
  if (!(numbers || shares) || targets.size(0) != inputs.size(0)) {
    throw_invalid(where, "targets are ", targets.sizes(), " for ", inputs.size(0),
                  " images; one class number each is needed, or the shares of all classes");
  }
}

Outcome classify(const torch::Tensor& logits, const torch::Tensor& targets,
                 double label_smoothing) {
  const auto options =
      torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(label_smoothing);
  const auto given = targets.is_floating_point() ? targets.to(logits.dtype()) : targets;
  const auto numbers = targets.is_floating_point() ? targets.argmax(1) : targets;
  const auto found = logits.detach();
  Outcome outcome{.loss = torch::nn::functional::cross_entropy(logits, given, options),
                  .count = targets.size(0),
                  .correct = found.argmax(1).eq(numbers).sum().item<std::int64_t>()};
  if (found.size(1) > 10) {
    const auto first = std::get<1>(found.topk(5, 1));
    outcome.in_top5 = first.eq(numbers.unsqueeze(1)).sum().item<std::int64_t>();
  }
  return outcome;
}

}  // namespace normball::trainer::models
