// What a run can measure beside its loss, in the norms that its steps are taken in ([run]
// layers_every, gap_every, probe_every): each layer; the gradient of the whole training set; how
// fast the gradient changes along the path. The training does not change by it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "normball/product_norm.h"
#include "normball_torch/norm_ball.h"
#include "trainer/config/config.h"
#include "trainer/models/model.h"
#include "trainer/train/data_source.h"
#include "trainer/train/shared_pass.h"

namespace normball::trainer::train {

class Measurements {
 public:
  using Values = std::vector<std::pair<std::string, double>>;  // of a line of the metrics
  // The gradient of the next batch's loss, left in the parameters.
  using Pass = std::function<BatchLoss()>;

  // `batches`: how many an epoch has. The optimizer may be null where nothing is to be measured.
  Measurements(const config::Config& config, const models::Model& model, DataSource& data,
               std::int64_t batches, normball::optim::NormBall* optimizer, Pass pass);

  // Around step number `step`, in this order: before its batch is drawn; once its gradient is
  // there; after a step that was taken. The last returns what was due, perhaps nothing.
  void begin(std::int64_t step);
  bool wants_gradient() const { return optimizer_ != nullptr && due(asked_.probe_every); }
  void see_gradient();
  Values end();

 private:
  using Tensors = std::vector<torch::Tensor>;
  struct Point;

  bool due(std::int64_t every) const { return every > 0 && step_ % every == 0; }
  std::vector<MatrixView<float>> views_of(const Tensors& tensors) const;
  Tensors gradients() const;
  Tensors buffers() const;
  void set_buffers(const Tensors& values) const;

  void add_layers(Values& values) const;
  void add_full_gradient(Values& values);
  void add_probe(Values& values);

  config::RunConfig asked_;
  bool overfits_;
  const models::Model& model_;
  DataSource& data_;
  std::int64_t batches_;
  normball::optim::NormBall* optimizer_;
  Pass pass_;

  std::vector<Route> routes_;
  std::vector<Role> roles_;  // of the layers
  ProductNorm norm_{{}};
  bool constrained_ = false;

  std::int64_t step_ = 0;
  // Where the step begins, for a probe.
  data::DataCursor before_ = {};
  Tensors weights_before_, gradients_before_, buffers_before_;
};

}  // namespace normball::trainer::train
