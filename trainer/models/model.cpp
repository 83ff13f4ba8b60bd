#include "trainer/models/model.h"

#include <utility>

#include "normball/error.h"

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

torch::Tensor Model::add_parameter(std::string name, torch::IntArrayRef shape, std::string kind,
                                   std::string role, bool starts_at_zero) {
  const auto tensor = torch::zeros(shape, torch::requires_grad());
  parameters_.push_back({.name = std::move(name),
                         .kind = std::move(kind),
                         .role = std::move(role),
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
    detail::invalid(where, "inputs are ", inputs.sizes(), "; the model takes (batch, ", image, ")");
  }
  if (batch.targets.dim() != 1 || batch.targets.size(0) != inputs.size(0)) {
    detail::invalid(where, "targets are ", batch.targets.sizes(), " for ", inputs.size(0),
                    " images; one class number each is needed");
  }
}

Outcome classify(const torch::Tensor& logits, const torch::Tensor& targets,
                 double label_smoothing) {
  const auto options =
      torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(label_smoothing);
  return {.loss = torch::nn::functional::cross_entropy(logits, targets, options),
          .count = targets.numel(),
          .correct = logits.detach().argmax(1).eq(targets).sum().item<std::int64_t>()};
}

}  // namespace normball::trainer::models
