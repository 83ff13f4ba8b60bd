#include "trainer/train/core_optimizer.h"

#include <algorithm>
#include <ranges>

#include "normball/error.h"

namespace normball::trainer {
namespace {

// A spectral norm that names no solver takes the run's.
Norm norm_from(const std::string& text, const std::string& solver) {
  Norm norm = parse_norm(text);
  auto* spectral = std::get_if<Spectral>(&norm);
  if (spectral != nullptr && text.find("solver") == std::string::npos) {
    spectral->solver = parse_polar_solver(solver);
  }
  return norm;
}

struct Ball {
  std::string norm;
  double radius;
};

Ball ball_for(const run::NormConfig& config, const ModelParameter& parameter) {
  if (parameter.kind == "embedding") return {config.embedding, config.embedding_radius};
  if (parameter.role == "input") return {config.input, config.input_radius};
  if (parameter.role == "output") return {config.output, config.output_radius};
  if (parameter.role == "bias") return {config.vector, config.vector_radius};
  return {config.hidden, config.hidden_radius};
}

}  // namespace

Routing route_parameters(const run::Config& config, const std::vector<ModelParameter>& parameters) {
  std::vector<ParameterInfo> infos;
  for (const auto& parameter : parameters) {
    const auto ball = ball_for(config.norm, parameter);
    infos.push_back({.name = parameter.name,
                     .dimensions = parameter.tensor.sizes().vec(),
                     .kind = parse_kind(parameter.kind),
                     .identity = parameter.tensor.data_ptr(),
                     .given = {.norm = norm_from(ball.norm, config.optimizer.solver),
                               .radius = ball.radius}});
  }
  RoutingOptions options{.solver = parse_polar_solver(config.optimizer.solver),
                         .grad_clip = config.optimizer.grad_clip};
  // The configuration's first match counts, the core's last.
  for (const auto& route : std::views::reverse(config.norm.route)) {
    Assignment then{.radius = route.radius};
    if (route.norm) then.norm = norm_from(*route.norm, config.optimizer.solver);
    options.rules.push_back({route.pattern, then});
  }
  return normball::route(infos, options);
}

CoreOptimizer::CoreOptimizer(const Method& method, std::vector<ModelParameter> parameters, Routing routing,
                             int threads)
    : parameters_(std::move(parameters)),
      routing_(std::move(routing)),
      optimizer_(method, routing_.layers(),
                 {.threads = threads,
                  .overwrite_gradients = true,
                  .nonfinite = NonFinite::Skip}) {}

StepOutcome CoreOptimizer::step() {
  views_.clear();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& tensor = parameters_[i].tensor;
    const auto& gradient = tensor.grad();
    for (const auto& block : routing_.routes[i].blocks) {
      const auto view = [&block](const torch::Tensor& whole) {
        return MatrixView<float>(whole.data_ptr<float>() + block.offset, block.shape.rows,
                                 block.shape.cols, block.stride);
      };
      views_.push_back(gradient.defined()
                           ? Parameter<float>{.weight = view(tensor), .gradient = view(gradient)}
                           : Parameter<float>::without_gradient(view(tensor)));
    }
  }
  const StepReport& report = optimizer_.step(views_);
  StepOutcome outcome{.lr = report.lr};
  if (report.skipped) {
    outcome.nonfinite = report.nonfinite_layer;
    return outcome;
  }
  outcome.pairing = report.pairing;
  outcome.eta = report.eta;
  outcome.clipped = report.clipped;
  if (optimizer_.method().constrained) outcome.gap = report.wolfe_gap;
  return outcome;
}

std::vector<NamedTensor> CoreOptimizer::state() {
  std::vector<NamedTensor> tensors;
  for (const auto& buffer : optimizer_.state()) {
    const auto& view = buffer.view;
    tensors.push_back({buffer.name, torch::from_blob(view.data, {view.rows, view.cols})});
  }
  return tensors;
}

void CoreOptimizer::set_steps_taken(std::int64_t steps) { optimizer_.set_steps_taken(steps); }

}  // namespace normball::trainer
