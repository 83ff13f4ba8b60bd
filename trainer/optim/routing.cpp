#include "trainer/optim/routing.h"

#include "trainer/config/config_method.h"

namespace normball::trainer::optim {
namespace {

std::vector<ParameterInfo> infos_of(const std::vector<models::ModelParameter>& parameters) {
  std::vector<ParameterInfo> infos;
  for (const auto& parameter : parameters) {
    infos.push_back({.name = parameter.name,
                     .dimensions = parameter.tensor.sizes().vec(),
                     .kind = parameter.kind,
                     .identity = parameter.tensor.data_ptr()});
  }
  return infos;
}

}  // namespace

RoutingOptions routing_options(const config::Config& config,
                               const std::vector<models::ModelParameter>& parameters) {
  RoutingOptions options = config::routing_options(config);
  if (options.method_norm) return options;
  const Routing by_kind = normball::route(infos_of(parameters));
  std::vector<RoutingRule> rules;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (by_kind.routes[i].role == parameters[i].role) continue;
    rules.push_back({parameters[i].name, {.role = parameters[i].role}});
  }
  options.rules.insert(options.rules.begin(), rules.begin(), rules.end());
  return options;
}

Routing route_parameters(const config::Config& config,
                         const std::vector<models::ModelParameter>& parameters) {
  return normball::route(infos_of(parameters), routing_options(config, parameters));
}

}  // namespace normball::trainer::optim
