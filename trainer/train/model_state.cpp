#include "trainer/train/model_state.h"

#include <cstring>

#include "normball/base/error.h"

namespace normball::trainer::train {

namespace {

run::Dtype dtype_of(const torch::Tensor& tensor) {
  const bool wide = tensor.scalar_type() == torch::kFloat64;
  TORCH_INTERNAL_ASSERT(wide || tensor.scalar_type() == torch::kFloat32);
  return wide ? run::Dtype::F64 : run::Dtype::F32;
}

}  // namespace

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
    TORCH_INTERNAL_ASSERT(tensor.is_contiguous());
    const auto* data = static_cast<const std::byte*>(tensor.data_ptr());
    views.push_back({name, dtype_of(tensor), tensor.sizes().vec(), {data, tensor.nbytes()}});
  }
  return views;
}

void load_tensors(const run::SafetensorsFile& file, const std::vector<optim::NamedTensor>& into,
                  std::string_view what) {
  if (file.tensors().size() != into.size()) {
    throw std::runtime_error(normball::error_message(
        "load_tensors", file.path().string(), " has ", file.tensors().size(), " tensors; ", what,
        " has ", into.size(), ": it was written by a run of another configuration"));
  }
  std::vector<const run::TensorView*> sources;
  for (const auto& [name, tensor] : into) {
    sources.push_back(&file.at(name, dtype_of(tensor), tensor.sizes()));
  }
  for (size_t i = 0; i < into.size(); ++i) {
    std::memcpy(into[i].tensor.data_ptr(), sources[i]->data.data(), sources[i]->data.size());
  }
}

}  // namespace normball::trainer::train
