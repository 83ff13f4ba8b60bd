#include "trainer/train/measurements.h"

#include <algorithm>
#include <cmath>

#include "normball/routed.h"

namespace normball::trainer::train {
namespace {

using Tensors = std::vector<torch::Tensor>;

Tensors clones_of(const Tensors& tensors) {
  Tensors copies;
  for (const auto& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

Tensors zeros_like(const Tensors& tensors) {
  Tensors zeros;
  for (const auto& tensor : tensors) zeros.push_back(torch::zeros_like(tensor));
  return zeros;
}

Tensors weights_of(const models::Model& model) {
  Tensors tensors;
  for (const auto& parameter : model.parameters()) tensors.push_back(parameter.tensor.detach());
  return tensors;
}

Tensors difference(const Tensors& now, const Tensors& before) {
  Tensors result;
  for (size_t i = 0; i < now.size(); ++i) result.push_back(now[i] - before[i]);
  return result;
}

double dot(const Tensors& a, const Tensors& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += (a[i].to(torch::kFloat64) * b[i].to(torch::kFloat64)).sum().item<double>();
  }
  return sum;
}

double norm_of(const Tensors& a) { return std::sqrt(dot(a, a)); }

}  // namespace

Measurements::Measurements(const config::Config& config, const models::Model& model,
                           DataSource& data, std::int64_t batches,
                           normball::optim::NormBall* optimizer, Pass pass)
    : asked_(config.run),
      overfits_(config.train.overfit_batch),
      model_(model),
      data_(data),
      batches_(batches),
      optimizer_(optimizer),
      pass_(std::move(pass)) {
  if (optimizer_ == nullptr) return;
  routes_ = optimizer_->routing().routes;
  for (const auto& route : routes_) roles_.insert(roles_.end(), route.blocks.size(), route.role);
  const Method method = optimizer_->method();
  norm_ = ProductNorm(layers_of(routes_), method.combination);
  constrained_ = method.constrained;
}

void Measurements::begin(std::int64_t step) {
  step_ = step;
  if (!wants_gradient()) return;
  before_ = data_.cursor();
  buffers_before_ = clones_of(buffers());
}

void Measurements::see_gradient() {
  if (!wants_gradient()) return;
  weights_before_ = clones_of(weights_of(model_));
  gradients_before_ = clones_of(gradients());
}

Measurements::Values Measurements::end() {
  Values values;
  if (optimizer_ == nullptr) return values;
  if (due(asked_.layers_every)) add_layers(values);
  if (due(asked_.probe_every)) add_probe(values);
  if (due(asked_.gap_every)) add_full_gradient(values);
  return values;
}

// Of each layer, as the step saw it: its part of s, its dual norm where that is another number, and
// what its weight has become, relative to its ball.
void Measurements::add_layers(Values& values) const {
  const auto& layers = norm_.layers();
  const auto& reports = optimizer_->report().layers;
  const auto weights = views_of(weights_of(model_));
  for (size_t l = 0; l < layers.size(); ++l) {
    values.emplace_back("pairing/" + layers[l].name, reports[l].pairing);
    if (constrained_) values.emplace_back("dual_norm/" + layers[l].name, reports[l].dual_norm);
    values.emplace_back(
        "weight_norm/" + layers[l].name,
        normball::norm(layers[l].norm, weights[l], &layers[l].shape) / layers[l].radius);
    // RMS to maximum: by how much the outputs may grow, whatever norm the layer is stepped in.
    if (roles_[l] == Role::Output) {
      values.emplace_back("operator_norm/" + layers[l].name,
                          normball::norm(RowNorm{}, weights[l], &layers[l].shape));
    }
  }
}

// The mean of the gradients of an epoch's batches, or of the first of them, always the same ones.
void Measurements::add_full_gradient(Values& values) {
  const data::DataCursor here = data_.cursor();
  const Tensors buffers_here = clones_of(buffers());
  const std::int64_t wanted = asked_.gap_batches == 0 ? batches_ : asked_.gap_batches;
  const std::int64_t count = overfits_ ? 1 : std::min(wanted, batches_);
  data_.seek({.seed = static_cast<std::uint64_t>(asked_.seed)});
  Tensors sum;
  double loss = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const BatchLoss batch = pass_();
    loss += batch.bad ? std::nan("") : batch.mean / static_cast<double>(count);
    const Tensors parts = gradients();
    if (sum.empty()) sum = zeros_like(parts);
    for (size_t i = 0; i < parts.size(); ++i) sum[i].add_(parts[i]);
  }
  for (auto& tensor : sum) tensor.div_(static_cast<double>(count));
  data_.seek(here);
  set_buffers(buffers_here);
  const double dual = std::isfinite(loss) ? norm_.dual_norm<float>(views_of(sum)) : std::nan("");
  values.emplace_back("full_loss", loss);
  values.emplace_back("full_dual_norm", dual);
  if (constrained_) values.emplace_back("full_gap", dual + dot(sum, weights_of(model_)));
}

// The same batch, and the same random choices in the model, before and after the step.
void Measurements::add_probe(Values& values) {
  const Tensors buffers_here = clones_of(buffers());
  set_buffers(buffers_before_);
  data_.seek(before_);
  pass_();  // which ends where the step's batch ended
  set_buffers(buffers_here);
  const Tensors steps = difference(weights_of(model_), weights_before_);
  const Tensors changes = difference(gradients(), gradients_before_);
  const auto moved = views_of(steps), changed = views_of(changes),
             first = views_of(gradients_before_);
  const auto add = [&](const std::string& name, double dual, double change, double distance) {
    if (distance == 0) return;
    values.emplace_back("probe_dual_norm" + name, dual);
    values.emplace_back("probe_ratio" + name, change / distance);
  };
  add("", norm_.dual_norm<float>(first), norm_.dual_norm<float>(changed), norm_.norm<float>(moved));
  add("_l2", norm_of(gradients_before_), norm_of(changes), norm_of(steps));
  const auto& layers = norm_.layers();
  for (size_t l = 0; l < layers.size(); ++l) {
    const auto dual = [&](const MatrixView<float>& d) {
      return layers[l].radius * normball::dual_norm(layers[l].norm, d, &layers[l].shape);
    };
    add("/" + layers[l].name, dual(first[l]), dual(changed[l]),
        normball::norm(layers[l].norm, moved[l], &layers[l].shape) / layers[l].radius);
  }
  weights_before_.clear();
  gradients_before_.clear();
}

std::vector<MatrixView<float>> Measurements::views_of(const Tensors& tensors) const {
  std::vector<MatrixView<float>> views;
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (const auto& block : routes_[i].blocks) {
      views.push_back(view_of(block, tensors[i].data_ptr<float>()));
    }
  }
  return views;
}

Tensors Measurements::gradients() const {
  Tensors tensors;
  for (const auto& parameter : model_.parameters()) {
    const auto& gradient = parameter.tensor.grad();
    tensors.push_back(gradient.defined() ? gradient.contiguous()
                                         : torch::zeros_like(parameter.tensor));
  }
  return tensors;
}

Tensors Measurements::buffers() const {
  Tensors tensors;
  for (const auto& buffer : model_.buffers()) tensors.push_back(buffer.tensor);
  return tensors;
}

void Measurements::set_buffers(const Tensors& values) const {
  for (size_t i = 0; i < values.size(); ++i) model_.buffers()[i].tensor.copy_(values[i]);
}

}  // namespace normball::trainer::train
