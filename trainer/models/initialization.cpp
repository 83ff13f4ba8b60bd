#include "trainer/models/initialization.h"

#include "normball/error.h"

namespace normball::trainer::models {
namespace {

// Values are made on the CPU in float, then copied to wherever and whatever the tensor is.
void assign(torch::Tensor tensor, const torch::Tensor& values) {
  const torch::NoGradGuard no_grad;
  tensor.copy_(values);
}

}  // namespace

void initialize_on_spheres(const Model& model, const std::vector<Layer>& layers, Random& random,
                           bool all) {
  const auto& parameters = model.parameters();
  if (layers.size() != parameters.size()) {
    detail::invalid("initialize_on_spheres", layers.size(), " layers for ", parameters.size(),
                    " parameters");
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (parameters[i].starts_at_zero && !all) {
      set_zero(parameters[i].tensor);
      continue;
    }
    const auto values = torch::empty(parameters[i].tensor.sizes());
    const Shape& shape = layers[i].shape;
    const MatrixView<float> view{values.data_ptr<float>(), shape.rows, shape.cols, shape.cols};
    initialize(layers[i].norm, shape, layers[i].radius, view, random);
    assign(parameters[i].tensor, values);
  }
}

void set_zero(torch::Tensor tensor) { assign(tensor, torch::zeros({})); }

void set_uniform(torch::Tensor tensor, double bound, Random& random) {
  const auto values = torch::empty(tensor.sizes());
  float* data = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    data[i] = static_cast<float>(bound * (2 * random.uniform() - 1));
  }
  assign(tensor, values);
}

}  // namespace normball::trainer::models
