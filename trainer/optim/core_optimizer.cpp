#include "trainer/optim/core_optimizer.h"

#include "trainer/config/config_method.h"

namespace normball::trainer::optim {
namespace {

config::ParameterRole role_of(const models::ModelParameter& parameter) {
  using enum config::ParameterRole;
  if (parameter.kind == "embedding") return Embedding;
  if (parameter.role == "input") return Input;
  if (parameter.role == "output") return Output;
  return parameter.role == "bias" ? Vector : Hidden;
}

}  // namespace

Routing route_parameters(const config::Config& config,
                         const std::vector<models::ModelParameter>& parameters) {
  // A method with a norm or radius of its own steps in that, whatever [norm] says.
  Method method;
  if (config::is_core_method(config.optimizer.method)) method = config::core_method(config, 1000);
  std::vector<ParameterInfo> infos;
  for (const auto& parameter : parameters) {
    auto choice = config::norm_of(config, role_of(parameter), parameter.name);
    if (method.norm) choice.norm = *method.norm;
    if (method.radius) choice.radius = *method.radius;
    infos.push_back({.name = parameter.name,
                     .dimensions = parameter.tensor.sizes().vec(),
                     .kind = parse_kind(parameter.kind),
                     .identity = parameter.tensor.data_ptr(),
                     .given = {.norm = choice.norm, .radius = choice.radius}});
  }
  // The patterns are applied already; here they are checked to fit something.
  RoutingOptions options{.solver = parse_polar_solver(config.optimizer.solver)};
  for (const auto& route : config.norm.route) options.rules.push_back({route.pattern, {}});
  Routing routing = normball::route(infos, options);
  for (auto& route : routing.routes) {
    route.why = method.norm     ? "the method"
                : method.radius ? "[norm], the method's radius"
                                : "[norm]";
  }
  return routing;
}

CoreOptimizer::CoreOptimizer(const Method& method, std::vector<models::ModelParameter> parameters,
                             Routing routing, int threads)
    : parameters_(std::move(parameters)),
      routing_(std::move(routing)),
      optimizer_(method, routing_.layers(),
                 {.threads = threads, .overwrite_gradients = true, .nonfinite = NonFinite::Skip}) {}

std::string CoreOptimizer::explain() const {
  Routing used = routing_;
  auto layer = optimizer_.layers().begin();
  for (auto& route : used.routes) {
    if (route.blocks.empty()) continue;
    route.norm = layer->norm;
    route.radius = layer->radius;
    layer += static_cast<std::ptrdiff_t>(route.blocks.size());
  }
  return used.explain();
}

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

}  // namespace normball::trainer::optim
