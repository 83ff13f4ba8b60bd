#include "trainer/train/model_state.h"

#include <cstring>

#include "normball/error.h"

namespace normball::trainer::train {

std::vector<optim::NamedTensor> model_state(const models::Model& model) {
  std::vector<optim::NamedTensor> tensors;
  for (const auto& parameter : model.parameters()) {
    tensors.push_back({parameter.name, parameter.tensor});
  }
  for (const auto& buffer : model.buffers()) tensors.push_back({buffer.name, buffer.tensor});
  return tensors;
}

std::vector<run::TensorView> views_of(const std::vector<optim::NamedTensor>& tensors) {
  std::vector<run::TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    TORCH_INTERNAL_ASSERT(tensor.is_contiguous() && tensor.scalar_type() == torch::kFloat32);
    const std::span values(tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel()));
    views.push_back({name, run::Dtype::F32, tensor.sizes().vec(), std::as_bytes(values)});
  }
  return views;
}

void load_tensors(const run::SafetensorsFile& file, const std::vector<optim::NamedTensor>& into,
                  std::string_view what) {
  if (file.tensors().size() != into.size()) {
    throw std::runtime_error(normball::detail::message(
        "load_tensors", file.path().string(), " has ", file.tensors().size(), " tensors; ", what,
        " has ", into.size(), ": it was written by a run of another configuration"));
  }
  std::vector<const run::TensorView*> sources;
  for (const auto& [name, tensor] : into) {
    sources.push_back(&file.at(name, run::Dtype::F32, tensor.sizes()));
  }
  for (size_t i = 0; i < into.size(); ++i) {
    std::memcpy(into[i].tensor.data_ptr<float>(), sources[i]->data.data(), sources[i]->data.size());
  }
}

}  // namespace normball::trainer::train
