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

std::vector<std::string> routed_otherwise_before(
    const config::Config& config, const std::vector<models::ModelParameter>& parameters) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters) {
    std::optional<config::Route> first;
    config::Route all;
    for (const auto& route : config.norm.route) {
      if (!RoutingRule{route.pattern, {}}.matches(parameter.name)) continue;
      if (!first) first = route;
      if (route.norm) all.norm = route.norm;
      if (route.radius) all.radius = route.radius;
    }
    if (first && (first->norm != all.norm || first->radius != all.radius)) {
      names.push_back(parameter.name);
    }
  }
  return names;
}

}  // namespace normball::trainer::optim
